//! QUERY_DEVICE and QUERY_PORT.

use soft_hca_core::uapi::uverbs::answer;
use soft_hca_core::uapi::verbs::{self, odp};

use super::{Device, Port};

/// A GID is needed to reach the port (`IB_UVERBS_QPF_GRH_REQUIRED`).
const GRH_REQUIRED: u8 = 1;

/// On-demand paging as Soft-RoCE of Linux 6.16 announces it: no implicit regions, nothing for UC.
const ODP: answer::OdpCaps = {
    let messages = odp::SEND | odp::RECV | odp::SRQ_RECV;
    let remote = odp::WRITE | odp::READ | odp::ATOMIC | odp::FLUSH | odp::ATOMIC_WRITE;
    let per_transport_caps = [messages | remote, 0, messages];
    answer::OdpCaps { general_caps: verbs::ODP_SUPPORT, per_transport_caps, reserved: 0 }
};

impl Device {
    /// QUERY_DEVICE's answer.
    pub(crate) fn query(&self) -> answer::QueryDevice {
        let (provider, limits) = (&self.provider, &self.limits);
        answer::QueryDevice {
            node_guid: self.node_guid.to_be_bytes(),
            sys_image_guid: self.node_guid.to_be_bytes(),
            max_mr_size: limits.max_mr_size,
            page_size_cap: limits.page_size_cap,
            vendor_id: provider.vendor_id,
            max_qp: limits.max_qp,
            max_qp_wr: limits.max_send_wr.min(limits.max_recv_wr),
            device_cap_flags: limits.device_cap_flags,
            max_sge: limits.max_send_sge.min(limits.max_recv_sge),
            max_sge_rd: limits.max_sge_rd,
            max_cq: limits.max_cq,
            max_cqe: limits.max_cqe,
            max_mr: limits.max_mr,
            max_pd: limits.max_pd,
            max_qp_rd_atom: limits.max_qp_rd_atom.into(),
            max_res_rd_atom: limits.max_res_rd_atom,
            max_qp_init_rd_atom: limits.max_qp_init_rd_atom.into(),
            atomic_cap: limits.atomic_cap,
            max_mw: limits.max_mw,
            max_mcast_grp: limits.max_mcast_grp,
            max_mcast_qp_attach: limits.max_mcast_qp_attach,
            max_total_mcast_qp_attach: limits.max_total_mcast_qp_attach,
            max_ah: limits.max_ah,
            max_srq: limits.max_srq,
            max_srq_wr: limits.max_srq_wr,
            max_srq_sge: limits.max_srq_sge,
            max_pkeys: limits.max_pkeys,
            local_ca_ack_delay: limits.local_ca_ack_delay,
            phys_port_cnt: self.ports.len() as u8,
            ..Default::default()
        }
    }

    /// The extended QUERY_DEVICE's answer.
    pub(crate) fn query_ex(&self) -> answer::ExQueryDevice {
        answer::ExQueryDevice {
            base: self.query(),
            response_length: size_of::<answer::ExQueryDevice>() as u32,
            odp_caps: ODP,
            device_cap_flags_ex: u64::from(self.limits.device_cap_flags)
                | self.limits.device_cap_flags_ex,
            ..Default::default()
        }
    }
}

impl Port {
    /// QUERY_PORT's answer.
    pub(crate) fn query(&self) -> answer::QueryPort {
        answer::QueryPort {
            port_cap_flags: self.cap_flags,
            max_msg_sz: self.max_message,
            gid_tbl_len: self.gids.slots().into(),
            pkey_tbl_len: self.pkeys.len() as u16,
            lid: self.lid,
            sm_lid: self.sm_lid,
            state: self.state.0 as u8,
            max_mtu: self.max_mtu,
            active_mtu: self.active_mtu(),
            lmc: self.lmc,
            max_vl_num: self.max_vl_num,
            sm_sl: self.sm_sl,
            active_width: self.width as u8,
            active_speed: self.speed as u8,
            phys_state: self.phys_state as u8,
            link_layer: self.link_layer as u8,
            flags: if self.is_grh_required() { GRH_REQUIRED } else { 0 },
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use soft_hca_core::uapi::uverbs::answer::Answer as _;

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn device_as_rxe_reports_it() {
        let device = Device::rxe("rxe0", 0xf073_5cff_fed2_226d, &[], 2 << 56);
        let plain = device.query().to_bytes();
        assert_eq!(plain.len(), 176);
        assert_eq!(plain[8..12], [0xf0, 0x73, 0x5c, 0xff]);
        assert_eq!(plain[8..16], plain[16..24]);
        // max_qp to max_pd, then the atomics
        let words: Vec<u32> = (52..88).step_by(4).map(|at| word(&plain, at)).collect();
        let expected = [16_384, 1_048_576, 0x0122_3c76, 32, 32, 16_384, 32767, 524_287, 1_048_576];
        assert_eq!(words, expected);
        assert_eq!((word(&plain, 88), word(&plain, 96), word(&plain, 108)), (128, 258_048, 1));
        assert_eq!((word(&plain, 156), word(&plain, 160), word(&plain, 164)), (4096, 1 << 20, 27));
        assert_eq!(plain[168..172], [64, 0, 15, 1]);
        let extended = device.query_ex().to_bytes();
        assert_eq!(extended.len(), 304);
        assert_eq!(extended[..176], plain);
        assert_eq!((word(&extended, 180), word(&extended, 224)), (304, 0x0122_3c76));
        // On demand: in general, then RC, UC and UD
        assert_eq!([184, 192, 196, 200].map(|at| word(&extended, at)), [1, 0xff, 0, 0x23]);
        // IB_UVERBS_DEVICE_FLUSH_GLOBAL and _ATOMIC_WRITE
        assert_eq!(word(&extended, 228), 1 << (38 - 32) | 1 << (40 - 32));
    }

    #[test]
    fn port_as_rxe_reports_it() {
        let port = Port::rxe(1, &[], &[], 2 << 56).query().to_bytes();
        assert_eq!(port.len(), 40);
        assert_eq!((word(&port, 0), word(&port, 4), word(&port, 16)), (0x10000, 1 << 31, 16));
        assert_eq!(port[20..28], [1, 0, 0, 0, 0, 0, 4, 5]);
        assert_eq!(port[30..40], [1, 0, 0, 0, 1, 8, 5, 2, 1, 0]);
    }
}
