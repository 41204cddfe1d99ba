//! The listing of a fabric that `soft-hca ls` shows.

use std::fmt::Write;
use std::sync::atomic::Ordering::Acquire;

use soft_hca_core::rpc::FileKind;
use soft_hca_core::uapi::verbs::{QpState, QpType};

use crate::counters::PortCounts;
use crate::fabric::Fabric;
use crate::files::{File, Files};
use crate::ucma::Cm;

/// The fabric's processes, queue pairs and connection manager ids, one line each, in the manner
/// of `rdma resource show`.
pub(crate) fn text(fabric: &Fabric, files: &Files, cm: &Cm) -> String {
    let mut out = String::new();
    for line in fabric.roce.describe() {
        let _ = writeln!(out, "{line}");
    }
    let counts = fabric.count_ports();
    for (index, device) in fabric.devices.iter().enumerate() {
        if fabric.is_removed(index) {
            let _ = writeln!(out, "device {} removed", device.name);
        }
        if let Some(profile) = device.like {
            let _ = writeln!(out, "device {} like {profile}", device.name);
        }
        for port in &device.ports {
            let _ = write!(
                out,
                "link {}/{} state {} physical_state {} layer {}",
                device.name,
                port.number,
                port.state.short_name().unwrap_or("?"),
                port.phys_state.name(),
                port.link_layer
            );
            if port.lid != 0 {
                let _ = write!(out, " lid {}", port.lid);
            }
            if port.lmc != 0 {
                let _ = write!(out, " lmc {}", port.lmc);
            }
            let _ = writeln!(out);
            if let Some(counts) = counts.get(&(device.index, port.number)) {
                write_counters(&mut out, &device.name, port.number, counts);
            }
        }
    }
    let pid = |proc: usize| fabric.processes.pid(proc).unwrap_or(0);
    for (_, file) in files.iter() {
        if let File::Bystander { pid, kind: FileKind::Lifeline } = file {
            let _ = writeln!(out, "run pid {pid} comm {}", comm(*pid));
        }
    }
    let mut processes: Vec<(usize, u32)> = fabric.processes.iter().collect();
    processes.sort_unstable();
    for (index, pid) in processes {
        let is_closed = fabric.arena.procs[index].closed.load(Acquire) != 0;
        let closed = if is_closed { " memory closed" } else { "" };
        let hook = if polls_unhooked(fabric, index) { " polls not hooked" } else { "" };
        let lease =
            fabric.lease_of(index).map_or(String::new(), |lease| format!(" port lease {lease}"));
        let _ = writeln!(out, "process pid {pid} comm {}{closed}{hook}{lease}", comm(pid));
    }
    for i in fabric.qps.taken() {
        let qp = &fabric.arena.qps[i];
        let state = QpState(qp.state.load(Acquire)).short_name().unwrap_or("?");
        let _ = write!(
            out,
            "qp lqpn {} type {} state {state}",
            qp.live.load(Acquire),
            QpType(qp.qp_type.load(Acquire)).short_name().unwrap_or("?"),
        );
        if qp.dest_qpn.load(Acquire) != 0 {
            let _ = write!(out, " rqpn {}", qp.dest_qpn.load(Acquire));
        }
        let _ = writeln!(out, " pid {}", pid(qp.proc.load(Acquire) as usize));
    }
    for id in cm.listing() {
        let _ = writeln!(out, "cm_id {id} pid {}", pid(id.owner));
    }
    out
}

/// Whether a process receives what its own polls do not bring to its memory.
fn polls_unhooked(fabric: &Fabric, proc: usize) -> bool {
    let qps = fabric.qps.taken().map(|index| &fabric.arena.qps[index]);
    let own = qps.filter(|qp| qp.proc.load(Acquire) as usize == proc);
    let mut cqs = own.filter_map(|qp| fabric.arena.cqs.get(qp.recv_cq.load(Acquire) as usize));
    cqs.any(|cq| cq.polls_eager.load(Acquire) == 0)
}

/// A line about what a port has sent and received, and what has gone wrong, if there is any of it.
fn write_counters(out: &mut String, device: &str, port: u8, counts: &PortCounts) {
    let (sent, received) = (counts.sent(), counts.received());
    let errors: String = counts.errors().map(|(name, value)| format!(" {name} {value}")).collect();
    if sent.packets == 0 && received.packets == 0 && errors.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "counters {device}/{port} sent packets {} bytes {} received packets {} bytes {}{errors}",
        sent.packets, sent.octets, received.packets, received.octets
    );
}

/// A process's name, as the kernel has it.
fn comm(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_string()
}
