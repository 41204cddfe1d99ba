//! Commands of the connection manager's file as calls of librdmacm, and its events.

use soft_hca_core::errno::Result;
use soft_hca_core::uapi;
use soft_hca_core::uapi::ucma::abi::{self, Request as _, Room};
use soft_hca_core::uapi::ucma::{
    self, Command, ConnParam, Sockaddr, command, disconnect_id, option, port_space, query,
};
use soft_hca_core::uapi::verbs::qp_type;
use soft_hca_record::entry::ConnectionEvent;
use soft_hca_record::{Name, Named};
use soft_hca_verbs::{CmEvent, EventType, QpState};
use zerocopy::FromBytes;

use super::names::{gid, named};
use super::objects::Objects;

/// The function's name in librdmacm. What it asks for by itself has the name of its inner function.
fn name(number: u32, payload: &[u8]) -> String {
    let name = match number {
        command::BIND_IP | command::BIND => "rdma_bind_addr",
        command::RESOLVE_IP | command::RESOLVE_ADDR => "rdma_resolve_addr",
        command::JOIN_IP_MCAST | command::JOIN_MCAST => "rdma_join_multicast",
        command::LEAVE_MCAST => "rdma_leave_multicast",
        command::QUERY_ROUTE => "ucma_query_route",
        command::QUERY => match ucma::Query::decode(payload).map(|requested| requested.option) {
            Ok(query::ADDR) => "ucma_query_addr",
            Ok(query::PATH) => "ucma_query_path",
            Ok(query::GID) => "ucma_query_gid",
            _ => "ucma_query",
        },
        _ => {
            let name = command::name(number).map(str::to_lowercase);
            return name.map_or_else(|| format!("command {number}"), |name| format!("rdma_{name}"));
        }
    };
    name.into()
}

fn id(number: u32) -> Named {
    named("id", Name::CmId(number))
}

fn address(name: &str, address: Option<Sockaddr>) -> Named {
    match address {
        Some(Sockaddr::Ip(ip)) => named(name, ip.to_string()),
        Some(Sockaddr::Ib(ib)) => named(name, gid(ib.gid)),
        None => Named(name.into(), soft_hca_record::Value::None),
    }
}

fn parameters(param: &ConnParam) -> [Named; 6] {
    [
        named("qp_num", Name::Qp(param.qp_num)),
        named("responder_resources", param.responder_resources),
        named("initiator_depth", param.initiator_depth),
        named("retry_count", param.retry_count),
        named("rnr_retry_count", param.rnr_retry_count),
        named("private_data_len", param.private_data.len() as u32),
    ]
}

/// A command: the call's name, its arguments, and what it gives if it was answered.
pub(super) fn call(
    objects: &mut Objects,
    proc: u32,
    fd: i32,
    written: &[u8],
    answer: Option<&[u8]>,
) -> (String, Vec<Named>, Vec<Named>) {
    let number = uapi::command_number(written).unwrap_or_default();
    let payload = Command::parse(written).map_or(&[][..], |command| command.payload);
    let decoded = arguments(objects, (proc, fd), number, payload, answer);
    let (args, done) = decoded.unwrap_or_default();
    (name(number, payload), args, done)
}

fn arguments(
    objects: &mut Objects,
    (proc, fd): (u32, i32),
    number: u32,
    payload: &[u8],
    answer: Option<&[u8]>,
) -> Result<(Vec<Named>, Vec<Named>)> {
    let answered = answer.and_then(|bytes| bytes.first_chunk().copied()).map(u32::from_le_bytes);
    let mut done = Vec::new();
    let args = match number {
        command::CREATE_ID => {
            let requested = ucma::CreateId::decode(payload)?;
            let space = match requested.ps {
                port_space::TCP => "RDMA_PS_TCP".into(),
                port_space::UDP => "RDMA_PS_UDP".into(),
                port_space::IPOIB => "RDMA_PS_IPOIB".into(),
                port_space::IB => "RDMA_PS_IB".into(),
                other => format!("{other:#x}"),
            };
            if let Some(number) = answered {
                let is_datagram = matches!(requested.ps, port_space::UDP | port_space::IPOIB)
                    || u32::from(requested.qp_type) == qp_type::UD;
                objects.ids.insert((proc, requested.uid), (number, is_datagram));
                if is_datagram {
                    objects.datagram_ids.insert(number);
                } else {
                    objects.datagram_ids.remove(&number);
                }
                done.push(id(number));
            }
            vec![named("channel", Name::EventChannel(fd as u32)), named("ps", space)]
        }
        command::DESTROY_ID | command::QUERY_ROUTE => {
            vec![id(ucma::Target::decode(payload)?.id)]
        }
        command::LEAVE_MCAST => vec![named("membership", ucma::Target::decode(payload)?.id)],
        command::BIND_IP | command::BIND => {
            let requested = match number {
                command::BIND => ucma::Bind::decode(payload)?,
                _ => ucma::Bind::decode_ip(payload)?,
            };
            vec![id(requested.id), address("addr", Some(requested.address))]
        }
        command::RESOLVE_IP | command::RESOLVE_ADDR => {
            let requested = match number {
                command::RESOLVE_ADDR => ucma::ResolveAddr::decode(payload)?,
                _ => ucma::ResolveAddr::decode_ip(payload)?,
            };
            vec![
                id(requested.id),
                address("src_addr", requested.src),
                address("dst_addr", Some(requested.dst)),
                named("timeout_ms", requested.timeout_ms),
            ]
        }
        command::RESOLVE_ROUTE => {
            let requested = ucma::ResolveRoute::decode(payload)?;
            vec![id(requested.id), named("timeout_ms", requested.timeout_ms)]
        }
        command::LISTEN => {
            let requested = ucma::Listen::decode(payload)?;
            vec![id(requested.id), named("backlog", requested.backlog)]
        }
        command::CONNECT => {
            let requested = ucma::Connect::decode(payload)?;
            [id(requested.id)].into_iter().chain(parameters(&requested.param)).collect()
        }
        command::ACCEPT => {
            let requested = ucma::Accept::decode(payload)?;
            let is_datagram = objects.datagram_ids.contains(&requested.id);
            objects.ids.insert((proc, requested.uid), (requested.id, is_datagram));
            let given = (requested.param.valid != 0).then(|| parameters(&requested.param));
            [id(requested.id)].into_iter().chain(given.into_iter().flatten()).collect()
        }
        command::REJECT => {
            let requested = ucma::Reject::decode(payload)?;
            vec![id(requested.id), named("private_data_len", requested.private_data.len() as u32)]
        }
        command::DISCONNECT => vec![id(disconnect_id(payload)?)],
        command::INIT_QP_ATTR => {
            let requested = ucma::InitQpAttr::decode(payload)?;
            vec![id(requested.id), named("qp_state", QpState(requested.qp_state).to_string())]
        }
        command::SET_OPTION => {
            // The value is elsewhere in the program's memory.
            let requested = abi::SetOption::read(payload)?;
            let option = match (requested.level, requested.optname) {
                (option::LEVEL_ID, option::ID_TOS) => "RDMA_OPTION_ID_TOS".into(),
                (option::LEVEL_ID, option::ID_REUSEADDR) => "RDMA_OPTION_ID_REUSEADDR".into(),
                (option::LEVEL_ID, option::ID_AFONLY) => "RDMA_OPTION_ID_AFONLY".into(),
                (option::LEVEL_ID, option::ID_ACK_TIMEOUT) => "RDMA_OPTION_ID_ACK_TIMEOUT".into(),
                (option::LEVEL_IB, option::IB_PATH) => "RDMA_OPTION_IB_PATH".into(),
                (level, name) => format!("{level}/{name}"),
            };
            vec![id(requested.id), named("optname", option)]
        }
        command::NOTIFY => {
            let requested = ucma::Notify::decode(payload)?;
            vec![id(requested.id), named("event", EventType(requested.event).to_string())]
        }
        command::JOIN_IP_MCAST | command::JOIN_MCAST => {
            let requested = match number {
                command::JOIN_MCAST => ucma::JoinMcast::decode(payload)?,
                _ => ucma::JoinMcast::decode_ip(payload)?,
            };
            done.extend(answered.map(|number| named("membership", number)));
            vec![id(requested.id), address("addr", Some(requested.address))]
        }
        command::MIGRATE_ID => {
            let requested = ucma::MigrateId::decode(payload)?;
            vec![id(requested.id), named("channel", Name::EventChannel(fd as u32))]
        }
        command::QUERY => vec![id(ucma::Query::decode(payload)?.id)],
        command::WRITE_CM_EVENT => {
            let requested = ucma::WriteEvent::decode(payload)?;
            let event = named("event", CmEvent(requested.event).to_string());
            vec![id(requested.id), event, named("status", requested.status)]
        }
        _ => Vec::new(),
    };
    Ok((args, done))
}

/// An event as `struct rdma_ucm_event_resp` has it.
pub(super) fn event(objects: &mut Objects, proc: u32, bytes: &[u8]) -> Option<ConnectionEvent> {
    let (event, _) = abi::EventResp::read_from_prefix(bytes).ok()?;
    let abi::EventResp { uid, id, event: number, status, param: Room(param), .. } = event;
    let known = objects.ids.get(&(proc, uid)).copied();
    let kind = CmEvent(number);
    let is_request = kind == CmEvent::CONNECT_REQUEST;
    let is_datagram = match known {
        Some((_, is_datagram)) if is_request => is_datagram,
        _ => objects.datagram_ids.contains(&id),
    };
    if is_request && is_datagram {
        objects.datagram_ids.insert(id);
    }
    let has_qp = matches!(
        kind,
        CmEvent::CONNECT_REQUEST
            | CmEvent::CONNECT_RESPONSE
            | CmEvent::ESTABLISHED
            | CmEvent::MULTICAST_JOIN
    );
    let has_data = has_qp || kind == CmEvent::REJECTED;
    let (qpn, private_data) = if is_datagram {
        let (param, _) = abi::UdParam::read_from_prefix(&param).ok()?;
        (param.qp_num, param.private_data_len)
    } else {
        let (param, _) = abi::ConnParam::read_from_prefix(&param).ok()?;
        (param.qp_num, param.private_data_len)
    };
    Some(ConnectionEvent {
        event: kind,
        id,
        listen_id: known.filter(|_| is_request).map(|(listen_id, _)| listen_id),
        status,
        qp: Some(qpn).filter(|qpn| has_qp && *qpn != 0),
        private_data: if has_data { private_data.into() } else { 0 },
    })
}
