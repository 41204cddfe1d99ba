//! Commands of the uverbs file as calls of libibverbs.

use soft_hca_core::trace::event;
use soft_hca_core::uapi;
use soft_hca_core::uapi::uverbs::{Command, EXTENDED, answer, command, request};
use soft_hca_core::uapi::verbs::{QpAttrMask, SrqAttrMask};
use soft_hca_record::entry::ReceiveQueue;
use soft_hca_record::{Name, Named, Value};
use soft_hca_verbs::{AccessFlags, Mtu, QpState, QpType};
use zerocopy::FromBytes;

use super::names::{gid, named};
use super::objects::{Handle, Limits, Objects};

/// The function's name in libibverbs.
fn name(number: u32) -> String {
    let plain = |number| {
        let name = command::name(number).map(str::to_lowercase);
        name.map_or_else(|| format!("command {number}"), |name| format!("ibv_{name}"))
    };
    match number {
        command::GET_CONTEXT => "ibv_open_device".into(),
        _ if number & EXTENDED != 0 => format!("{}_ex", plain(number & !EXTENDED)),
        _ => plain(number),
    }
}

/// Looks up the objects of a call.
struct OfCall<'d> {
    objects: &'d mut Objects,
    proc: u32,
    fd: i32,
}

impl OfCall<'_> {
    fn handle(&self, handle: u32) -> Handle {
        Handle { proc: self.proc, fd: self.fd, handle }
    }

    fn cq(&self, handle: u32) -> Value {
        let known = self.objects.cqs.get(&self.handle(handle));
        known.map_or(Value::from(handle), |cq| Name::Cq(*cq).into())
    }

    fn qp(&self, handle: u32) -> Value {
        let known = self.objects.qps.get(&self.handle(handle));
        known.map_or(Value::from(handle), |qp| Name::Qp(*qp).into())
    }

    fn srq(&self, handle: u32) -> Value {
        let known = self.objects.srqs.get(&self.handle(handle));
        known.map_or(Value::from(handle), |srq| Name::Srq(*srq).into())
    }
}

fn channel(fd: i32) -> Value {
    u32::try_from(fd).map_or(Value::None, |fd| Name::Channel(fd).into())
}

fn qp_state(number: u32) -> String {
    QpState(number).to_string()
}

fn access(flags: u32) -> String {
    AccessFlags::from_bits_retain(flags).to_string()
}

fn read<T: FromBytes>(bytes: Option<&[u8]>) -> Option<T> {
    T::read_from_prefix(bytes?).ok().map(|(value, _)| value)
}

/// A command: the call's name, its arguments, and what it gives if it was answered.
pub(super) fn call(
    objects: &mut Objects,
    proc: u32,
    body: &event::Call,
    written: &[u8],
    answer: Option<&[u8]>,
) -> (String, Vec<Named>, Vec<Named>) {
    let number = uapi::command_number(written).unwrap_or_default();
    let name = name(number);
    let Ok(command) = Command::parse(written) else { return (name, Vec::new(), Vec::new()) };
    let mut of_call = OfCall { objects, proc, fd: body.fd };
    let (args, done) = arguments(&mut of_call, body, &command, answer).unwrap_or_default();
    (name, args, done)
}

fn arguments(
    of_call: &mut OfCall<'_>,
    body: &event::Call,
    command: &Command<'_>,
    answer: Option<&[u8]>,
) -> Option<(Vec<Named>, Vec<Named>)> {
    let context = || named("context", Name::Context(body.fd as u32));
    let mut done = Vec::new();
    let args = match command.number {
        command::GET_CONTEXT => {
            done.push(context());
            Vec::new()
        }
        command::QUERY_DEVICE | command::EX_QUERY_DEVICE => vec![context()],
        command::QUERY_PORT => {
            let requested: request::QueryPort = command.request().ok()?;
            vec![context(), named("port_num", requested.port_num)]
        }
        command::ALLOC_PD => {
            let pd = read::<answer::AllocPd>(answer);
            done.extend(pd.map(|answer| named("pd", Name::Pd(answer.pd_handle))));
            vec![context()]
        }
        command::DEALLOC_PD => {
            let requested: request::DeallocPd = command.request().ok()?;
            vec![named("pd", Name::Pd(requested.pd_handle))]
        }
        command::REG_MR => {
            let requested: request::RegMr = command.request().ok()?;
            if let Some(mr) = read::<answer::RegMr>(answer) {
                done.push(named("mr", Name::Mr(mr.mr_handle)));
                done.push(named("lkey", Name::Key(mr.lkey)));
                done.push(named("rkey", Name::Key(mr.rkey)));
            }
            let mut args = vec![
                named("pd", Name::Pd(requested.pd_handle)),
                named("addr", Name::Address(requested.start)),
                named("length", requested.length as i64),
                named("access", access(requested.access_flags)),
            ];
            if requested.hca_va != requested.start {
                args.push(named("iova", Name::Address(requested.hca_va)));
            }
            args
        }
        command::DEREG_MR => {
            let requested: request::DeregMr = command.request().ok()?;
            vec![named("mr", Name::Mr(requested.mr_handle))]
        }
        command::ALLOC_MW => {
            let requested: request::AllocMw = command.request().ok()?;
            if let Some(mw) = read::<answer::AllocMw>(answer) {
                done.push(named("mw", Name::Mw(mw.mw_handle)));
                done.push(named("rkey", Name::Key(mw.rkey)));
            }
            vec![named("pd", Name::Pd(requested.pd_handle)), named("type", requested.mw_type)]
        }
        command::DEALLOC_MW => {
            let requested: request::DeallocMw = command.request().ok()?;
            vec![named("mw", Name::Mw(requested.mw_handle))]
        }
        command::CREATE_AH => {
            let requested: request::CreateAh = command.request().ok()?;
            let ah = read::<answer::CreateAh>(answer);
            done.extend(ah.map(|answer| named("ah", Name::Ah(answer.ah_handle))));
            vec![
                named("pd", Name::Pd(requested.pd_handle)),
                named("dgid", gid(requested.attr.grh.dgid)),
                named("sgid_index", requested.attr.grh.sgid_index),
                named("port_num", requested.attr.port_num),
            ]
        }
        command::DESTROY_AH => {
            let requested: request::DestroyAh = command.request().ok()?;
            vec![named("ah", Name::Ah(requested.ah_handle))]
        }
        command::CREATE_COMP_CHANNEL => {
            let made = read::<answer::CreateCompChannel>(answer);
            done.extend(made.map(|answer| named("channel", channel(answer.fd))));
            vec![context()]
        }
        command::CREATE_CQ | command::EX_CREATE_CQ => {
            let requested: request::ExCreateCq = if command.number == command::CREATE_CQ {
                command.request::<request::CreateCq>().ok()?.into()
            } else {
                command.request().ok()?
            };
            if let Some(made) = read::<answer::CreateCq>(answer) {
                let handle = of_call.handle(made.cq_handle);
                of_call.objects.cqs.insert(handle, body.created);
                done.push(named("cq", Name::Cq(body.created)));
                done.push(named("cqe", made.cqe));
            }
            vec![
                context(),
                named("cqe", requested.cqe),
                named("channel", channel(requested.comp_channel)),
                named("comp_vector", requested.comp_vector),
            ]
        }
        command::RESIZE_CQ => {
            let requested: request::ResizeCq = command.request().ok()?;
            let made = read::<answer::ResizeCq>(answer);
            done.extend(made.map(|answer| named("cqe", answer.cqe)));
            vec![named("cq", of_call.cq(requested.cq_handle)), named("cqe", requested.cqe)]
        }
        command::DESTROY_CQ => {
            let requested: request::DestroyCq = command.request().ok()?;
            vec![named("cq", of_call.cq(requested.cq_handle))]
        }
        command::REQ_NOTIFY_CQ => {
            let requested: request::ReqNotifyCq = command.request().ok()?;
            let solicited_only = named("solicited_only", requested.solicited_only);
            vec![named("cq", of_call.cq(requested.cq_handle)), solicited_only]
        }
        command::CREATE_QP | command::EX_CREATE_QP => {
            let requested: request::ExCreateQp = if command.number == command::CREATE_QP {
                command.request::<request::CreateQp>().ok()?.into()
            } else {
                command.request().ok()?
            };
            if let Some(made) = read::<answer::CreateQp>(answer) {
                let handle = of_call.handle(made.qp_handle);
                of_call.objects.qps.insert(handle, made.qpn);
                let limits = Limits {
                    sends: requested.max_send_wr,
                    send_sges: requested.max_send_sge,
                    receives: requested.max_recv_wr,
                    receive_sges: requested.max_recv_sge,
                    inline: made.max_inline_data,
                };
                of_call.objects.limits.insert(ReceiveQueue::Qp(made.qpn), limits);
                done.push(named("qp_num", Name::Qp(made.qpn)));
                done.push(named("max_send_wr", made.max_send_wr));
                done.push(named("max_recv_wr", made.max_recv_wr));
                done.push(named("max_inline_data", made.max_inline_data));
            }
            create_qp(of_call, &requested)
        }
        command::QUERY_QP => {
            let requested: request::QueryQp = command.request().ok()?;
            let found = read::<answer::QueryQp>(answer);
            done.extend(found.map(|qp| named("qp_state", qp_state(qp.qp_state.into()))));
            vec![named("qp", of_call.qp(requested.qp_handle))]
        }
        command::MODIFY_QP => {
            let requested: request::ModifyQp = command.request().ok()?;
            modify_qp(of_call, &requested)
        }
        command::DESTROY_QP => {
            let requested: request::DestroyQp = command.request().ok()?;
            vec![named("qp", of_call.qp(requested.qp_handle))]
        }
        command::POST_SEND => {
            let requested: request::PostSend = command.request().ok()?;
            vec![named("qp", of_call.qp(requested.qp_handle))]
        }
        command::ATTACH_MCAST | command::DETACH_MCAST => {
            let payload = command.payload;
            let (requested, _) = request::AttachMcast::read_from_prefix(payload).ok()?;
            vec![named("qp", of_call.qp(requested.qp_handle)), named("gid", gid(requested.gid))]
        }
        command::CREATE_SRQ => {
            let requested: request::CreateSrq = command.request().ok()?;
            if let Some(made) = read::<answer::CreateSrq>(answer) {
                let handle = of_call.handle(made.srq_handle);
                of_call.objects.srqs.insert(handle, made.srqn);
                let (receives, receive_sges) = (requested.max_wr, made.max_sge);
                let limits = Limits { receives, receive_sges, ..Limits::default() };
                of_call.objects.limits.insert(ReceiveQueue::Srq(made.srqn), limits);
                done.push(named("srq", Name::Srq(made.srqn)));
                done.push(named("max_wr", made.max_wr));
                done.push(named("max_sge", made.max_sge));
            }
            vec![
                named("pd", Name::Pd(requested.pd_handle)),
                named("max_wr", requested.max_wr),
                named("max_sge", requested.max_sge),
                named("srq_limit", requested.srq_limit),
            ]
        }
        command::MODIFY_SRQ => {
            let requested: request::ModifySrq = command.request().ok()?;
            let mask = SrqAttrMask::from_bits_truncate(requested.attr_mask);
            let mut args = vec![named("srq", of_call.srq(requested.srq_handle))];
            if mask.contains(SrqAttrMask::MAX_WR) {
                args.push(named("max_wr", requested.max_wr));
            }
            if mask.contains(SrqAttrMask::LIMIT) {
                args.push(named("srq_limit", requested.srq_limit));
            }
            args
        }
        command::QUERY_SRQ => {
            let requested: request::QuerySrq = command.request().ok()?;
            vec![named("srq", of_call.srq(requested.srq_handle))]
        }
        command::DESTROY_SRQ => {
            let requested: request::DestroySrq = command.request().ok()?;
            vec![named("srq", of_call.srq(requested.srq_handle))]
        }
        _ => Vec::new(),
    };
    Some((args, done))
}

fn create_qp(of_call: &OfCall<'_>, requested: &request::ExCreateQp) -> Vec<Named> {
    let kind = QpType(requested.qp_type.into());
    let mut args = vec![
        named("pd", Name::Pd(requested.pd_handle)),
        named("qp_type", kind.to_string()),
        named("send_cq", of_call.cq(requested.send_cq_handle)),
        named("recv_cq", of_call.cq(requested.recv_cq_handle)),
    ];
    if requested.is_srq != 0 {
        args.push(named("srq", of_call.srq(requested.srq_handle)));
    }
    args.extend([
        named("max_send_wr", requested.max_send_wr),
        named("max_recv_wr", requested.max_recv_wr),
        named("max_send_sge", requested.max_send_sge),
        named("max_recv_sge", requested.max_recv_sge),
        named("max_inline_data", requested.max_inline_data),
        named("sq_sig_all", requested.sq_sig_all),
    ]);
    args
}

/// The attributes that are given.
fn modify_qp(of_call: &OfCall<'_>, requested: &request::ModifyQp) -> Vec<Named> {
    let mask = QpAttrMask::from_bits_truncate(requested.attr_mask);
    let path_mtu = Mtu(requested.path_mtu.into());
    let all = [
        (QpAttrMask::STATE, named("qp_state", qp_state(requested.qp_state.into()))),
        (QpAttrMask::CUR_STATE, named("cur_qp_state", qp_state(requested.cur_qp_state.into()))),
        (QpAttrMask::PKEY_INDEX, named("pkey_index", requested.pkey_index)),
        (QpAttrMask::PORT, named("port_num", requested.port_num)),
        (QpAttrMask::ACCESS_FLAGS, named("qp_access_flags", access(requested.qp_access_flags))),
        (QpAttrMask::QKEY, named("qkey", format!("{:#x}", requested.qkey))),
        (QpAttrMask::AV, named("dgid", gid(requested.dest.dgid))),
        (QpAttrMask::AV, named("sgid_index", requested.dest.sgid_index)),
        (QpAttrMask::AV, named("hop_limit", requested.dest.hop_limit)),
        (QpAttrMask::PATH_MTU, named("path_mtu", path_mtu.to_string())),
        (QpAttrMask::DEST_QPN, named("dest_qp_num", Name::Qp(requested.dest_qp_num))),
        (QpAttrMask::RQ_PSN, named("rq_psn", Name::Psn(requested.rq_psn))),
        (QpAttrMask::SQ_PSN, named("sq_psn", Name::Psn(requested.sq_psn))),
        (QpAttrMask::MAX_DEST_RD_ATOMIC, named("max_dest_rd_atomic", requested.max_dest_rd_atomic)),
        (QpAttrMask::MAX_QP_RD_ATOMIC, named("max_rd_atomic", requested.max_rd_atomic)),
        (QpAttrMask::MIN_RNR_TIMER, named("min_rnr_timer", requested.min_rnr_timer)),
        (QpAttrMask::TIMEOUT, named("timeout", requested.timeout)),
        (QpAttrMask::RETRY_CNT, named("retry_cnt", requested.retry_cnt)),
        (QpAttrMask::RNR_RETRY, named("rnr_retry", requested.rnr_retry)),
        (
            QpAttrMask::EN_SQD_ASYNC_NOTIFY,
            named("en_sqd_async_notify", requested.en_sqd_async_notify),
        ),
    ];
    let given = all.into_iter().filter(|(bit, _)| mask.contains(*bit)).map(|(_, value)| value);
    std::iter::once(named("qp", of_call.qp(requested.qp_handle))).chain(given).collect()
}
