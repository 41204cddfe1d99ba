//! QUERY_DEVICE and QUERY_PORT: `include/uapi/rdma/ib_user_verbs.h`.

use super::{Device, Port};
use crate::uapi::uverbs::Answer;

/// A GID is needed to reach the port (`IB_UVERBS_QPF_GRH_REQUIRED`).
const GRH_REQUIRED: u8 = 1;

impl Device {
    fn put_attributes(&self, answer: &mut Answer) {
        let (provider, limits) = (&self.provider, &self.limits);
        answer
            .put(8, &self.node_guid.to_be_bytes())
            .put(16, &self.node_guid.to_be_bytes()) // sys_image_guid
            .u64(24, limits.max_mr_size)
            .u64(32, limits.page_size_cap)
            .u32(40, provider.vendor_id)
            .u32(52, limits.max_qp)
            .u32(56, limits.max_qp_wr)
            .u32(60, limits.device_cap_flags)
            .u32(64, limits.max_sge)
            .u32(68, limits.max_sge_rd)
            .u32(72, limits.max_cq)
            .u32(76, limits.max_cqe)
            .u32(80, limits.max_mr)
            .u32(84, limits.max_pd)
            .u32(88, limits.max_qp_rd_atom.into())
            .u32(96, limits.max_res_rd_atom)
            .u32(100, limits.max_qp_init_rd_atom.into())
            .u32(108, limits.atomic_cap)
            .u32(120, limits.max_mw)
            .u32(132, limits.max_mcast_grp)
            .u32(136, limits.max_mcast_qp_attach)
            .u32(140, limits.max_total_mcast_qp_attach)
            .u32(144, limits.max_ah)
            .u32(156, limits.max_srq)
            .u32(160, limits.max_srq_wr)
            .u32(164, limits.max_srq_sge)
            .u16(168, limits.max_pkeys)
            .u8(170, limits.local_ca_ack_delay)
            .u8(171, self.ports.len() as u8); // phys_port_cnt
    }

    /// `ib_uverbs_query_device_resp`
    pub fn query(&self) -> Answer {
        let mut answer = Answer::new(176);
        self.put_attributes(&mut answer);
        answer
    }

    /// `ib_uverbs_ex_query_device_resp`
    pub fn query_ex(&self) -> Answer {
        let mut answer = Answer::new(304);
        self.put_attributes(&mut answer);
        answer.u32(180, 304).u64(224, self.limits.device_cap_flags.into());
        answer
    }
}

impl Port {
    /// `ib_uverbs_query_port_resp`
    pub fn query(&self) -> Answer {
        let mut answer = Answer::new(40);
        answer
            .u32(0, self.cap_flags)
            .u32(4, self.max_message)
            .u32(16, self.gids.slots().into())
            .u16(20, self.pkeys.len() as u16)
            .u16(22, self.lid)
            .u16(24, self.sm_lid)
            .u8(26, self.state as u8)
            .u8(27, self.max_mtu)
            .u8(28, self.active_mtu)
            .u8(29, self.lmc)
            .u8(30, self.max_vl_num)
            .u8(31, self.sm_sl)
            .u8(34, self.width as u8)
            .u8(35, self.speed as u8)
            .u8(36, self.phys_state as u8)
            .u8(37, self.link_layer as u8)
            .u8(38, if self.is_grh_required() { GRH_REQUIRED } else { 0 });
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn device_as_rxe_reports_it() {
        let device = Device::rxe("rxe0", 0xf073_5cff_fed2_226d, &[], 2 << 56);
        let plain = device.query().0;
        assert_eq!(plain.len(), 176);
        assert_eq!(plain[8..12], [0xf0, 0x73, 0x5c, 0xff]);
        assert_eq!(plain[8..16], plain[16..24]);
        // max_qp to max_pd, then the atomics
        let words: Vec<u32> = (52..88).step_by(4).map(|at| word(&plain, at)).collect();
        let expected =
            [1_048_560, 1_048_576, 0x0122_3c76, 32, 32, 1_048_576, 32767, 524_287, 1_048_576];
        assert_eq!(words, expected);
        assert_eq!((word(&plain, 88), word(&plain, 96), word(&plain, 108)), (128, 258_048, 1));
        assert_eq!(
            (word(&plain, 156), word(&plain, 160), word(&plain, 164)),
            (917_503, 1 << 20, 27)
        );
        assert_eq!(plain[168..172], [64, 0, 15, 1]);
        let extended = device.query_ex().0;
        assert_eq!(extended.len(), 304);
        assert_eq!(extended[..176], plain);
        assert_eq!((word(&extended, 180), word(&extended, 224)), (304, 0x0122_3c76));
    }

    #[test]
    fn port_as_rxe_reports_it() {
        let port = Port::rxe(1, &[], 2 << 56).query().0;
        assert_eq!(port.len(), 40);
        assert_eq!((word(&port, 0), word(&port, 4), word(&port, 16)), (0x10000, 0x80_0000, 16));
        assert_eq!(port[20..28], [1, 0, 0, 0, 0, 0, 4, 5]);
        assert_eq!(port[30..40], [1, 0, 0, 0, 1, 8, 5, 2, 1, 0]);
    }
}
