//! Queue pairs: `rxe_qp.c`.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::arena::RingLocation;
use soft_hca_core::errno::{Errno, Label, Refusal, Result, Values, ensure};
use soft_hca_core::rpc::Created;
use soft_hca_core::uapi::rxe::abi::{self, MmInfo};
use soft_hca_core::uapi::uverbs::answer::{self, WithDriverData};
use soft_hca_core::uapi::uverbs::request::{self, ExCreateQp, ModifyQp};
use soft_hca_core::uapi::verbs::{DeviceLimit, Psn, QpAttrMask as Mask, Qpn, qp_type, state};

use crate::device::{Limits, LinkLayer, Port, Provider};
use crate::fabric::{GONE, RingOf, store_gid};
use crate::migration::{self, Event};
use crate::objects::{Path, QpObject};
use crate::paths::{partition_key, route_of};
use crate::uverbs::object::Kind;
use crate::uverbs::shared_receive::NO_SRQ;
use crate::uverbs::transitions;
use crate::uverbs::{Context, Object, Outcome};

/// CREATE_QP's answer.
pub(super) type CreateQpAnswer = WithDriverData<answer::CreateQp, abi::CreateQpResp>;
/// The extended CREATE_QP's answer.
pub(super) type ExCreateQpAnswer = WithDriverData<answer::ExCreateQp, abi::CreateQpResp>;

fn check(request: &ExCreateQp, limits: &Limits) -> Result<()> {
    match request.qp_type.into() {
        qp_type::RC if limits.has_rc => {}
        qp_type::UC if limits.has_uc => {}
        qp_type::UD if limits.has_ud => {}
        qp_type::RC
        | qp_type::UC
        | qp_type::UD
        | qp_type::RAW_PACKET
        | qp_type::XRC_SEND
        | qp_type::XRC_RECV => {
            return Err(Errno::EOPNOTSUPP.because(Refusal::DeviceLimit(DeviceLimit::QueuePairType)));
        }
        _ => return Err(Errno::EINVAL.because(Refusal::QpType)),
    }
    let has_own = request.is_srq == 0;
    ensure(has_own || limits.has_srq, NO_SRQ)?;
    for (requested, limit, what) in [
        (request.max_send_wr, limits.max_send_wr, DeviceLimit::SendWr),
        (request.max_send_sge, limits.max_send_sge, DeviceLimit::SendSge),
        (request.max_inline_data, limits.max_inline_data, DeviceLimit::InlineData),
        (if has_own { request.max_recv_wr } else { 0 }, limits.max_recv_wr, DeviceLimit::RecvWr),
        (if has_own { request.max_recv_sge } else { 0 }, limits.max_recv_sge, DeviceLimit::RecvSge),
    ] {
        let refusal = Errno::EINVAL.because(Refusal::DeviceLimit(what));
        ensure(requested <= limit, refusal.beyond(requested.into(), limit.into()))?;
    }
    Ok(())
}

pub(super) fn create_qp(
    cx: &mut Context<'_>,
    request: &request::CreateQp,
) -> Result<Outcome<CreateQpAnswer>> {
    let (answer, driver_data) = new_qp(cx, &(*request).into())?;
    let created = created(&answer);
    Ok(Outcome::from(WithDriverData(answer, driver_data)).with_created(created))
}

pub(super) fn create_qp_ex(
    cx: &mut Context<'_>,
    request: &ExCreateQp,
) -> Result<Outcome<ExCreateQpAnswer>> {
    // Flags at creation, such as to block the loopback of multicast, are not supported.
    let is_plain = request.create_flags == 0;
    ensure(is_plain, Errno::EOPNOTSUPP.because(Refusal::QpFlag))?;
    let (answer, driver_data) = new_qp(cx, request)?;
    let created = created(&answer);
    let answer = answer::ExCreateQp::new(answer);
    Ok(Outcome::from(WithDriverData(answer, driver_data)).with_created(created))
}

fn created(answer: &answer::CreateQp) -> Created {
    Created::Qp { handle: answer.qp_handle, qpn: Qpn::new(answer.qpn) }
}

fn new_qp(
    cx: &mut Context<'_>,
    request: &ExCreateQp,
) -> Result<(answer::CreateQp, abi::CreateQpResp)> {
    let device = Arc::clone(&cx.file.device);
    check(request, &device.limits)?;
    let ExCreateQp { max_send_wr, max_recv_wr, max_recv_sge, sq_sig_all, .. } = *request;
    let pd = cx.file.handles.pd(request.pd_handle)?;
    let send_cq = cx.file.handles.index(request.send_cq_handle, Kind::Cq)?;
    let recv_cq = cx.file.handles.index(request.recv_cq_handle, Kind::Cq)?;
    let srq = match request.is_srq {
        0 => None,
        _ => Some(cx.file.handles.index(request.srq_handle, Kind::Srq)?),
    };
    let provider = &device.provider;
    let room = provider.send_room(request.max_send_sge, request.max_inline_data);
    let max_send_sge = room / provider.sge_bytes;
    let object = QpObject {
        qp_type: request.qp_type.into(),
        file: cx.file.id,
        user_handle: request.user_handle,
        device: device.index,
        pd,
        cqs: [send_cq, recv_cq],
        srq,
        sq_sig_all,
        max_inline: room,
        max_send_sge,
        max_recv_sge,
        ..QpObject::default()
    };
    let index = cx.fabric.take_qp(object, cx.file.proc)?;
    let qpn = cx.fabric.qpn(index)?;
    let rings = cx.fabric.make_room_to_keep(index);
    let (sq, rq) = match rings.and_then(|()| new_rings(cx, provider, request, room)) {
        Ok(rings) => rings,
        Err(error) => {
            cx.fabric.release_ring_of(RingOf::Snapshot(index));
            cx.fabric.qps.release(index);
            return Err(error);
        }
    };
    let rq_mi = rq.as_ref().map_or_else(MmInfo::default, MmInfo::of);
    let driver_data = abi::CreateQpResp { rq_mi, sq_mi: MmInfo::of(&sq) };
    cx.fabric.place_ring(RingOf::Send(index), sq);
    if let Some(rq) = rq {
        cx.fabric.place_ring(RingOf::Receive(index), rq);
    }
    let qp = &cx.fabric.arena.qps[index];
    for (field, value) in [
        (&qp.qp_type, request.qp_type.into()),
        (&qp.state, state::RESET),
        (&qp.proc, cx.file.proc as u32),
        (&qp.pd, pd),
        (&qp.send_cq, send_cq as u32),
        (&qp.recv_cq, recv_cq as u32),
        (&qp.srq, srq.map_or(0, |index| index as u32 + 1)),
        (&qp.sq_sig_all, sq_sig_all.into()),
        (&qp.max_send_sge, max_send_sge),
        (&qp.max_recv_sge, max_recv_sge),
        (&qp.max_inline, room),
    ] {
        field.store(value, Release);
    }
    qp.live.store(qpn, Release);
    let answer = answer::CreateQp {
        qp_handle: cx.file.handles.insert(Object::Qp { index, pd }),
        qpn,
        max_send_wr,
        max_recv_wr: if srq.is_some() { 0 } else { max_recv_wr },
        max_send_sge,
        max_recv_sge: if srq.is_some() { 0 } else { max_recv_sge },
        max_inline_data: room,
        reserved: 0,
    };
    Ok((answer, driver_data))
}

/// The ring of sends, and that of receives unless they are shared.
fn new_rings(
    cx: &mut Context<'_>,
    provider: &Provider,
    request: &ExCreateQp,
    send_room: u32,
) -> Result<(RingLocation, Option<RingLocation>)> {
    let sq = cx.fabric.new_ring(request.max_send_wr, provider.send_slot(send_room))?;
    if request.is_srq != 0 {
        return Ok((sq, None));
    }
    match cx.fabric.new_ring(request.max_recv_wr, provider.recv_slot(request.max_recv_sge)) {
        Ok(rq) => Ok((sq, Some(rq))),
        Err(error) => {
            cx.fabric.release_ring(&sq);
            Err(error)
        }
    }
}

pub(super) fn query_qp(
    cx: &mut Context<'_>,
    request: &request::QueryQp,
) -> Result<Outcome<answer::QueryQp>> {
    let index = cx.file.handles.index(request.qp_handle, Kind::Qp)?;
    let qp = &cx.fabric.arena.qps[index];
    let object = cx.fabric.qps.get(index).ok_or(GONE)?;
    let alternate = object.alternate.unwrap_or_default();
    let word = |field: &AtomicU32| field.load(Acquire);
    let byte = |field: &AtomicU32| field.load(Acquire) as u8;
    let answer = answer::QueryQp {
        dest: object.path.dest,
        alt_dest: alternate.dest,
        // As many as the ring has room for, whatever was requested.
        max_send_wr: word(&qp.sq.mask),
        max_recv_wr: word(&qp.rq.mask),
        max_send_sge: object.max_send_sge,
        max_recv_sge: object.max_recv_sge,
        max_inline_data: object.max_inline,
        qkey: word(&qp.qkey),
        rq_psn: word(&qp.rq_psn),
        sq_psn: word(&qp.sq_psn),
        dest_qp_num: word(&qp.dest_qpn),
        qp_access_flags: word(&qp.access),
        pkey_index: object.path.pkey_index,
        alt_pkey_index: alternate.pkey_index,
        path_mig_state: object.migration as u8,
        alt_port_num: alternate.port_num,
        alt_timeout: alternate.timeout,
        qp_state: byte(&qp.state),
        path_mtu: byte(&qp.path_mtu),
        max_rd_atomic: byte(&qp.max_rd_atomic),
        max_dest_rd_atomic: byte(&qp.max_dest_rd_atomic),
        min_rnr_timer: byte(&qp.min_rnr_timer),
        port_num: object.path.port_num,
        timeout: byte(&qp.timeout),
        retry_cnt: byte(&qp.retry_cnt),
        rnr_retry: byte(&qp.rnr_retry),
        sq_sig_all: object.sq_sig_all,
        ..Default::default()
    };
    Ok(answer.into())
}

pub(super) fn modify_qp(cx: &mut Context<'_>, request: &ModifyQp) -> Result<Outcome<()>> {
    let index = cx.file.handles.index(request.qp_handle, Kind::Qp)?;
    let given = Mask::from_bits_retain(request.attr_mask);
    let qp = &cx.fabric.arena.qps[index];
    let kind = qp.qp_type.load(Acquire);
    let current = qp.state.load(Acquire);
    let from = if given.contains(Mask::CUR_STATE) { request.cur_qp_state.into() } else { current };
    let to = if given.contains(Mask::STATE) { request.qp_state.into() } else { from };
    ensure(
        from == current,
        Errno::EINVAL
            .because(Refusal::CurrentState)
            .with(Values::of([(Label::State, current.into())])),
    )?;
    ensure(to <= state::ERR, Errno::EINVAL.because(Refusal::NoSuchState))?;
    transitions::check(kind, from, to, given)?;
    check_values(cx, index, request, given)?;
    set_attributes(cx, index, request, given)?;
    change_state(cx, index, from, to)?;
    Ok(().into())
}

fn check_values(cx: &Context<'_>, index: usize, request: &ModifyQp, given: Mask) -> Result<()> {
    let is_given = |bit| given.contains(bit);
    let dest = request.dest;
    let device = &cx.file.device;
    let is_port = |number: u8| device.port(number).is_ok();
    let object = cx.fabric.qps.get(index).ok_or(GONE)?;
    let alternate = request.alt_port_num;
    let of_infiniband = |port: &Port| port.link_layer == LinkLayer::InfiniBand;
    let migrates = device.port(object.path.port_num).is_ok_and(of_infiniband);
    let max_mtu = device.port(object.path.port_num).map_or(0, |port| port.max_mtu);
    let max_rd_atomic = device.limits.max_qp_init_rd_atom;
    for (attribute, is_right, reason) in [
        // Soft-RoCE refuses an alternate path, and so does every RoCE device.
        (Mask::ALT_PATH, migrates, Refusal::NoMigration),
        (Mask::ALT_PATH, is_port(alternate), Refusal::AlternatePort),
        (Mask::PORT, is_port(request.port_num), Refusal::NoSuchPort),
        (Mask::AV, is_port(dest.port_num), Refusal::AddressVectorPort),
        (Mask::PATH_MTU, request.path_mtu != 0, Refusal::NoSuchPathMtu),
    ] {
        ensure(is_right || !is_given(attribute), Errno::EINVAL.because(reason))?;
    }
    for (attribute, requested, limit, reason) in [
        (Mask::PATH_MTU, request.path_mtu, max_mtu, Refusal::PathMtu),
        (Mask::TIMEOUT, request.timeout, 31, Refusal::Timeout),
        (Mask::ALT_PATH, request.alt_timeout, 31, Refusal::AlternateTimeout),
        (Mask::RETRY_CNT, request.retry_cnt, 7, Refusal::RetryCount),
        (Mask::RNR_RETRY, request.rnr_retry, 7, Refusal::RnrRetry),
        (
            Mask::MAX_QP_RD_ATOMIC,
            request.max_rd_atomic,
            max_rd_atomic,
            Refusal::DeviceLimit(DeviceLimit::InitRdAtomic),
        ),
    ] {
        let refusal = Errno::EINVAL.because(reason).beyond(requested.into(), limit.into());
        ensure(requested <= limit || !is_given(attribute), refusal)?;
    }
    if is_given(Mask::PKEY_INDEX) {
        let number = if is_given(Mask::PORT) { request.port_num } else { object.path.port_num };
        partition_key(device.port(number)?, request.pkey_index)?;
    }
    if is_given(Mask::AV) {
        route_of(cx.fabric, device, dest.port_num, &dest)?;
    }
    if is_given(Mask::ALT_PATH) {
        partition_key(device.port(alternate)?, request.alt_pkey_index)?;
        route_of(cx.fabric, device, alternate, &request.alt_dest)?;
    }
    if is_given(Mask::PATH_MIG_STATE) {
        let has_path = is_given(Mask::ALT_PATH) || object.alternate.is_some();
        let requested = Event::Requested { number: request.path_mig_state, has_path };
        object.migration.after(requested)?;
    }
    Ok(())
}

fn set_attributes(
    cx: &mut Context<'_>,
    index: usize,
    request: &ModifyQp,
    given: Mask,
) -> Result<()> {
    let is_given = |bit| given.contains(bit);
    if is_given(Mask::PORT) {
        cx.fabric.keep_counts(index);
    }
    let object = cx.fabric.qps.get_mut(index).ok_or(GONE)?;
    if is_given(Mask::AV) {
        object.path.dest = request.dest;
        store_gid(&cx.fabric.arena.qps[index].dgid, request.dest.dgid);
    }
    if is_given(Mask::PKEY_INDEX) {
        object.path.pkey_index = request.pkey_index;
    }
    if is_given(Mask::PORT) {
        object.path.port_num = request.port_num;
    }
    if is_given(Mask::ALT_PATH) {
        object.alternate = Some(Path {
            port_num: request.alt_port_num,
            pkey_index: request.alt_pkey_index,
            dest: request.alt_dest,
            timeout: request.alt_timeout,
        });
    }
    let has_vector = object.path.has_vector();
    if given.intersects(Mask::AV | Mask::PORT) {
        cx.fabric.describe_path(index);
        if has_vector {
            cx.fabric.reroute(index);
        }
    }
    if given.intersects(Mask::PKEY_INDEX | Mask::PORT) {
        cx.fabric.enter_partition(index);
    }
    let qp = &cx.fabric.arena.qps[index];
    for (bit, field, value) in [
        (Mask::QKEY, &qp.qkey, request.qkey),
        (Mask::RQ_PSN, &qp.rq_psn, Psn::new(request.rq_psn).into()),
        (Mask::SQ_PSN, &qp.sq_psn, Psn::new(request.sq_psn).into()),
        (Mask::DEST_QPN, &qp.dest_qpn, Qpn::new(request.dest_qp_num).into()),
        (Mask::ACCESS_FLAGS, &qp.access, request.qp_access_flags),
        (Mask::PATH_MTU, &qp.path_mtu, request.path_mtu.into()),
        (Mask::EN_SQD_ASYNC_NOTIFY, &qp.sqd_notify, request.en_sqd_async_notify.into()),
        (Mask::MAX_QP_RD_ATOMIC, &qp.max_rd_atomic, request.max_rd_atomic.into()),
        (Mask::MAX_DEST_RD_ATOMIC, &qp.max_dest_rd_atomic, request.max_dest_rd_atomic.into()),
        // Only five bits go with a NAK; the kernel and adapters ignore the others.
        (Mask::MIN_RNR_TIMER, &qp.min_rnr_timer, (request.min_rnr_timer & 0x1f).into()),
        (Mask::TIMEOUT, &qp.timeout, request.timeout.into()),
        (Mask::RETRY_CNT, &qp.retry_cnt, request.retry_cnt.into()),
        (Mask::RNR_RETRY, &qp.rnr_retry, request.rnr_retry.into()),
    ] {
        if is_given(bit) {
            field.store(value, Release);
        }
    }
    if is_given(Mask::PATH_MIG_STATE) {
        let has_path = cx.fabric.qps.get(index).is_some_and(|object| object.alternate.is_some());
        let requested = Event::Requested { number: request.path_mig_state, has_path };
        cx.fabric.migration(index, requested)?;
    }
    Ok(())
}

/// `ERESTART` as [`Fabric::lock`](crate::fabric::Fabric::lock): the states for which that can be
/// have no attributes.
fn change_state(cx: &mut Context<'_>, index: usize, from: u32, to: u32) -> Result<()> {
    if to == state::RESET {
        if let Some(object) = cx.fabric.qps.get_mut(index) {
            (object.alternate, object.migration) = (None, migration::State::default());
        }
    }
    let fabric = &*cx.fabric;
    let qp = &fabric.arena.qps[index];
    let qpn = qp.live.load(Acquire);
    if matches!(to, state::ERR | state::RESET) {
        fabric.actor().release_delayed(qpn);
    }
    match to {
        state::ERR if !fabric.actor().enter_error(qpn) => return Err(Errno::ERESTART),
        state::ERR => fabric.tell_link(index, to),
        state::RESET => {
            let _guards = (fabric.lock(&qp.send_lock)?, fabric.lock(&qp.recv_lock)?);
            qp.state.store(to, Release);
            fabric.tell_link(index, to);
            qp.wait.store(0, Release);
            qp.sq_group_reached.store(0, Release);
            qp.sq_consumer.store(0, Release);
            qp.sq_in_flight.store(0, Release);
            if let Some(ring) = fabric.arena.ring(&qp.sq) {
                ring.init_header();
            }
            qp.rq_consumer.store(0, Release);
            qp.rq_posted.store(0, Release);
            qp.consumed.store(0, Release);
            qp.completion_lost.store(0, Release);
            if let Some(ring) = fabric.arena.ring(&qp.rq) {
                ring.init_header();
            }
        }
        _ => {
            qp.state.store(to, Release);
            fabric.tell_link(index, to);
            // In SQD an idle queue reports that it is drained; back in RTS it goes on.
            if from != to && matches!(to, state::RTS | state::SQD) {
                fabric.actor().run_send_queue(qpn);
            }
        }
    }
    Ok(())
}

pub(super) fn destroy_qp(
    cx: &mut Context<'_>,
    request: &request::DestroyQp,
) -> Result<Outcome<answer::DestroyQp>> {
    let handle = request.qp_handle;
    let index = cx.file.handles.index(handle, Kind::Qp)?;
    let is_member = cx.fabric.members_of(index).next().is_some();
    ensure(!is_member, Errno::EBUSY.because(Refusal::QpInUse))?;
    cx.fabric.actor().release_delayed(cx.fabric.arena.qps[index].live.load(Acquire));
    cx.fabric.release_qp(index)?;
    cx.file.handles.remove(handle);
    let reported = cx.file.forget_async(handle);
    Ok(answer::DestroyQp { events_reported: reported }.into())
}
