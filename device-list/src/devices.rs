//! The whole program: one walk over the list of devices.

use std::ffi::{CStr, c_char, c_int};
use std::process::ExitCode;

use common::errln;
use common::errno::strerror;
use common::memory::zeroed;
use rdma_sys::{
    ibv_device_attr, ibv_node_type, ibv_query_device, ibv_transport_type, rdma_free_devices,
    rdma_get_devices,
};

/// A text field of a structure as `%s` prints it.
fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|&c| c as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map_or(&bytes[..], CStr::to_bytes);
    String::from_utf8_lossy(text).into_owned()
}

/// Prints every RDMA device that the connection manager can open. Arguments are ignored.
pub fn main() -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    let mut num_devices: c_int = 0;
    // SAFETY: the library only writes the number.
    let list = unsafe { rdma_get_devices(&mut num_devices) };
    if list.is_null() || num_devices == 0 {
        errln!("No RDMA devices found");
        return ExitCode::FAILURE;
    }

    errln!("{num_devices} RDMA devices found");

    for count in 1.. {
        // SAFETY: the list ends with a null pointer, at which this loop ends.
        let lptr = unsafe { *list.add(count - 1) };
        if lptr.is_null() {
            break;
        }
        // SAFETY: the entries of the list are open devices until the list is freed.
        let device = unsafe { (*lptr).device };
        // SAFETY: an open device keeps its description, which nobody changes.
        let device = unsafe { &*device };

        let tptr = match device.transport_type {
            ibv_transport_type::IBV_TRANSPORT_IB => "InfiniBand",
            ibv_transport_type::IBV_TRANSPORT_IWARP => "iWARP",
            _ => "Unknown transport type",
        };

        let nptr = match device.node_type {
            ibv_node_type::IBV_NODE_CA => "CA",
            ibv_node_type::IBV_NODE_SWITCH => "Switch",
            ibv_node_type::IBV_NODE_ROUTER => "Router",
            ibv_node_type::IBV_NODE_RNIC => "RNIC",
            _ => "Unknown node type",
        };
        errln!("{count}: {}, {}, {tptr}, {nptr}", text(&device.name), text(&device.dev_name));

        let mut dev_attrs: ibv_device_attr = zeroed();
        // SAFETY: the device is open; the library writes the attributes.
        let n = unsafe { ibv_query_device(lptr, &mut dev_attrs) };
        if n != 0 {
            let n = n.saturating_abs();
            errln!("ibv_query_device returned error {n}: {}", strerror(n));
            status = ExitCode::FAILURE;
            continue;
        }
        errln!(
            "\tRDMA device vendor id {}, part id {}, hardware version {}, firmware version {}",
            dev_attrs.vendor_id,
            dev_attrs.vendor_part_id,
            dev_attrs.hw_ver,
            text(&dev_attrs.fw_ver)
        );
        errln!("\tMaximum number of supported queue pairs - max_qp {}", dev_attrs.max_qp);
        errln!("\tMaximum number of outstanding work requests - max_qp_wr {}", dev_attrs.max_qp_wr);
        errln!(
            "\tMaximum number of scatter-gather items per work request for \
             non-registered queue pairs- max_sge {}",
            dev_attrs.max_sge
        );
        errln!(
            "\tMaximum number of scatter-gather items per work request for \
             registered queue pairs- max_sge_rd {}",
            dev_attrs.max_sge_rd
        );
        errln!("\tMaximum number of supported completion queues - max_cq {}", dev_attrs.max_cq);
        errln!("\tMaximum number of elements per completion queue - max_cqe {}", dev_attrs.max_cqe);
        errln!("\tMaximum number of supported memory regions - max_mr {}", dev_attrs.max_mr);
        errln!("\tMaximum number of supported protection domains - max_pd {}", dev_attrs.max_pd);
    }

    // SAFETY: the list came from `rdma_get_devices` and is freed once; no entry is used any more.
    unsafe { rdma_free_devices(list) };

    status
}
