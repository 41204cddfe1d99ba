//! Queue pairs: `rxe_qp.c`.

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::arena::RingPlace;
use crate::daemon::fabric::{RingOf, store_gid};
use crate::daemon::known::KnownQp;
use crate::daemon::uverbs::address::check_way;
use crate::daemon::uverbs::object::Kind;
use crate::daemon::uverbs::shared_receive::{RECV_WQE, SGE};
use crate::daemon::uverbs::transitions::{is_legal, mask, qp_type, state};
use crate::daemon::uverbs::{Context, Object, Outcome};
use crate::device;
use crate::errno::{Errno, Result};
use crate::uapi::uverbs::Answer;

/// Bytes of a send work request before its data.
const SEND_WQE: u32 = 208;
/// Bytes of `ib_uverbs_qp_dest`.
const DEST: usize = 32;
/// Numbers of packets and queue pairs have 24 bits.
const BITS_24: u32 = 0xff_ffff;

/// What is asked of a new queue pair. The fields lie alike in both create commands, `base` apart.
struct Wanted {
    user_handle: u64,
    pd: u32,
    send_cq: u32,
    recv_cq: u32,
    srq: u32,
    max_send_wr: u32,
    max_recv_wr: u32,
    max_send_sge: u32,
    max_recv_sge: u32,
    max_inline: u32,
    sq_sig_all: u8,
    qp_type: u8,
    is_srq: bool,
}

impl Wanted {
    fn read(cx: &Context<'_>, base: usize) -> Result<Self> {
        let command = cx.command;
        let word = |i: usize| command.u32(base + 8 + 4 * i);
        Ok(Self {
            user_handle: command.u64(base)?,
            pd: word(0)?,
            send_cq: word(1)?,
            recv_cq: word(2)?,
            srq: word(3)?,
            max_send_wr: word(4)?,
            max_recv_wr: word(5)?,
            max_send_sge: word(6)?,
            max_recv_sge: word(7)?,
            max_inline: word(8)?,
            sq_sig_all: command.u8(base + 44)?,
            qp_type: command.u8(base + 45)?,
            is_srq: command.u8(base + 46)? != 0,
        })
    }

    fn check(&self) -> Result<()> {
        match self.qp_type {
            qp_type::RC | qp_type::UC | qp_type::UD => {}
            8..=10 => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        }
        let receives_fit = self.is_srq
            || (self.max_recv_wr <= device::MAX_QP_WR && self.max_recv_sge <= device::MAX_SGE);
        if self.max_send_wr > device::MAX_QP_WR
            || self.max_send_sge > device::MAX_SGE
            || self.max_inline > device::MAX_INLINE
            || !receives_fit
        {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Bytes behind a send work request's fixed part: for elements or for inline data.
    fn send_room(&self) -> u32 {
        (self.max_send_sge * SGE).max(self.max_inline)
    }
}

pub(super) fn create_qp(cx: &mut Context<'_>) -> Result<Outcome> {
    let wanted = Wanted::read(cx, 8)?;
    let created = new_qp(cx, &wanted)?;
    let mut answer = Answer::new(64);
    answer.put(0, &created.base).put(32, &created.rq_mminfo).put(48, &created.sq_mminfo);
    Ok(Outcome::from(answer).with_extra([created.qpn, created.handle, 0, 0]))
}

pub(super) fn create_qp_ex(cx: &mut Context<'_>) -> Result<Outcome> {
    // Flags at creation, such as to block the loopback of multicast, are not supported.
    if cx.command.u32(52)? != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let wanted = Wanted::read(cx, 0)?;
    let created = new_qp(cx, &wanted)?;
    let mut answer = Answer::new(72);
    answer.put(0, &created.base).u32(36, 40);
    answer.put(40, &created.rq_mminfo).put(56, &created.sq_mminfo);
    Ok(Outcome::from(answer).with_extra([created.qpn, created.handle, 0, 0]))
}

struct Created {
    handle: u32,
    qpn: u32,
    base: [u8; 32],
    rq_mminfo: [u8; 16],
    sq_mminfo: [u8; 16],
}

/// Extra for the client: number and handle.
fn new_qp(cx: &mut Context<'_>, wanted: &Wanted) -> Result<Created> {
    wanted.check()?;
    let pd = cx.file.handles.pd(wanted.pd)?;
    let send_cq = cx.file.handles.index(wanted.send_cq, Kind::Cq)?;
    let recv_cq = cx.file.handles.index(wanted.recv_cq, Kind::Cq)?;
    let srq = match wanted.is_srq {
        true => Some(cx.file.handles.index(wanted.srq, Kind::Srq)?),
        false => None,
    };
    let room = wanted.send_room();
    let index = cx.fabric.take_qp(KnownQp {
        qp_type: wanted.qp_type,
        file: cx.file.id,
        user_handle: wanted.user_handle,
        pd,
        cqs: [send_cq, recv_cq],
        srq,
        sq_sig_all: wanted.sq_sig_all,
        max_inline: room,
        max_send_sge: room / SGE,
        max_recv_sge: wanted.max_recv_sge,
        ..KnownQp::default()
    })?;
    let qpn = cx.fabric.qpn(index)?;
    let (sq, rq) = match new_rings(cx, wanted, room) {
        Ok(rings) => rings,
        Err(error) => {
            cx.fabric.qps.release(index);
            return Err(error);
        }
    };
    let (sq_mminfo, rq_mminfo) = (sq.mminfo(), rq.as_ref().map_or([0; 16], RingPlace::mminfo));
    cx.fabric.place_ring(RingOf::Send(index), sq);
    if let Some(rq) = rq {
        cx.fabric.place_ring(RingOf::Receive(index), rq);
    }
    let qp = &cx.fabric.arena.qps[index];
    for (field, value) in [
        (&qp.qp_type, wanted.qp_type.into()),
        (&qp.state, state::RESET.into()),
        (&qp.proc, cx.file.proc as u32),
        (&qp.pd, pd),
        (&qp.send_cq, send_cq as u32),
        (&qp.recv_cq, recv_cq as u32),
        (&qp.srq, srq.map_or(0, |index| index as u32 + 1)),
        (&qp.sq_sig_all, wanted.sq_sig_all.into()),
        (&qp.max_send_sge, room / SGE),
        (&qp.max_recv_sge, wanted.max_recv_sge),
        (&qp.max_inline, room),
    ] {
        field.store(value, Release);
    }
    qp.live.store(qpn, Release);
    let handle = cx.file.handles.insert(Object::Qp { index, pd });
    let mut base = Answer::new(32);
    base.u32(0, handle).u32(4, qpn).u32(8, wanted.max_send_wr);
    base.u32(12, if wanted.is_srq { 0 } else { wanted.max_recv_wr });
    base.u32(16, room / SGE).u32(20, if wanted.is_srq { 0 } else { wanted.max_recv_sge });
    base.u32(24, room);
    Ok(Created { handle, qpn, base: base.0.try_into().expect("32 bytes"), rq_mminfo, sq_mminfo })
}

/// The ring of sends, and that of receives unless they are shared.
fn new_rings(
    cx: &mut Context<'_>,
    wanted: &Wanted,
    send_room: u32,
) -> Result<(RingPlace, Option<RingPlace>)> {
    let sq = cx.fabric.new_ring(wanted.max_send_wr, SEND_WQE + send_room)?;
    if wanted.is_srq {
        return Ok((sq, None));
    }
    match cx.fabric.new_ring(wanted.max_recv_wr, RECV_WQE + wanted.max_recv_sge * SGE) {
        Ok(rq) => Ok((sq, Some(rq))),
        Err(error) => {
            cx.fabric.release_ring(&sq);
            Err(error)
        }
    }
}

pub(super) fn query_qp(cx: &mut Context<'_>) -> Result<Outcome> {
    let index = cx.file.handles.index(cx.command.u32(8)?, Kind::Qp)?;
    let qp = &cx.fabric.arena.qps[index];
    let private = cx.fabric.qps.get(index).ok_or(Errno::EINVAL)?;
    let byte = |field: &std::sync::atomic::AtomicU32| field.load(Acquire) as u8;
    let mut answer = Answer::new(128);
    answer.put(0, &private.dest);
    // As many as the ring has room for, whatever was requested.
    answer.u32(64, qp.sq.mask.load(Acquire)).u32(68, qp.rq.mask.load(Acquire));
    answer.u32(72, private.max_send_sge).u32(76, private.max_recv_sge).u32(80, private.max_inline);
    answer.u32(84, qp.qkey.load(Acquire));
    answer.u32(88, qp.rq_psn.load(Acquire)).u32(92, qp.sq_psn.load(Acquire));
    answer.u32(96, qp.dest_qpn.load(Acquire)).u32(100, qp.access.load(Acquire));
    answer.u16(104, private.pkey_index);
    answer.u8(108, byte(&qp.state)).u8(110, byte(&qp.path_mtu));
    answer.u8(113, byte(&qp.max_rd_atomic)).u8(114, byte(&qp.max_dest_rd_atomic));
    answer.u8(115, byte(&qp.min_rnr_timer)).u8(116, private.port_num);
    answer.u8(117, byte(&qp.timeout)).u8(118, byte(&qp.retry_cnt)).u8(119, byte(&qp.rnr_retry));
    answer.u8(122, private.sq_sig_all);
    Ok(answer.into())
}

pub(super) fn modify_qp(cx: &mut Context<'_>) -> Result<Outcome> {
    let command = cx.command;
    let index = cx.file.handles.index(command.u32(64)?, Kind::Qp)?;
    let given = command.u32(68)?;
    let qp = &cx.fabric.arena.qps[index];
    let kind = qp.qp_type.load(Acquire) as u8;
    let current = qp.state.load(Acquire) as u8;
    let from = if given & mask::CUR_STATE != 0 { command.u8(97)? } else { current };
    let to = if given & mask::STATE != 0 { command.u8(96)? } else { from };
    if from != current || to > state::ERR || !is_legal(kind, from, to, given) {
        return Err(Errno::EINVAL);
    }
    check_values(cx, given)?;
    set_attributes(cx, index, given)?;
    change_state(cx, index, from, to)?;
    Ok(Outcome::done())
}

fn check_values(cx: &Context<'_>, given: u32) -> Result<()> {
    let command = cx.command;
    let is_given = |bit| given & bit != 0;
    // Soft-RoCE refuses an alternate path, and so do we.
    if is_given(mask::ALT_PATH)
        || (is_given(mask::PORT) && command.u8(104)? != 1)
        || (is_given(mask::AV) && (command.u8(30)? == 0 || command.u8(31)? != 1))
        || (is_given(mask::PATH_MTU) && !(1..=5).contains(&command.u8(98)?))
        || (is_given(mask::TIMEOUT) && command.u8(105)? > 31)
        || (is_given(mask::RETRY_CNT) && command.u8(106)? > 7)
        || (is_given(mask::RNR_RETRY) && command.u8(107)? > 7)
        || (is_given(mask::MIN_RNR_TIMER) && command.u8(103)? > 31)
        || (is_given(mask::MAX_QP_RD_ATOMIC) && command.u8(101)? > device::MAX_RD_ATOMIC)
    {
        return Err(Errno::EINVAL);
    }
    if is_given(mask::AV) {
        let sgid = cx.fabric.addresses.gid(command.u8(24)?);
        if sgid == [0; 16] {
            return Err(Errno::EINVAL);
        }
        check_way(&cx.fabric.addresses, sgid, command.gid(0)?)?;
    }
    Ok(())
}

fn set_attributes(cx: &mut Context<'_>, index: usize, given: u32) -> Result<()> {
    let command = cx.command;
    let is_given = |bit| given & bit != 0;
    let private = cx.fabric.qps.get_mut(index).ok_or(Errno::EINVAL)?;
    if is_given(mask::AV) {
        private.dest.copy_from_slice(&command.payload[..DEST]);
        store_gid(&cx.fabric.arena.qps[index].dgid, command.gid(0)?);
    }
    if is_given(mask::PKEY_INDEX) {
        private.pkey_index = command.u16(92)?;
    }
    if is_given(mask::PORT) {
        private.port_num = command.u8(104)?;
    }
    let qp = &cx.fabric.arena.qps[index];
    for (bit, field, value) in [
        (mask::QKEY, &qp.qkey, command.u32(72)?),
        (mask::RQ_PSN, &qp.rq_psn, command.u32(76)? & BITS_24),
        (mask::SQ_PSN, &qp.sq_psn, command.u32(80)? & BITS_24),
        (mask::DEST_QPN, &qp.dest_qpn, command.u32(84)? & BITS_24),
        (mask::ACCESS_FLAGS, &qp.access, command.u32(88)?),
        (mask::PATH_MTU, &qp.path_mtu, command.u8(98)?.into()),
        (mask::EN_SQD_ASYNC_NOTIFY, &qp.sqd_notify, command.u8(100)?.into()),
        (mask::MAX_QP_RD_ATOMIC, &qp.max_rd_atomic, command.u8(101)?.into()),
        (mask::MAX_DEST_RD_ATOMIC, &qp.max_dest_rd_atomic, command.u8(102)?.into()),
        (mask::MIN_RNR_TIMER, &qp.min_rnr_timer, command.u8(103)?.into()),
        (mask::TIMEOUT, &qp.timeout, command.u8(105)?.into()),
        (mask::RETRY_CNT, &qp.retry_cnt, command.u8(106)?.into()),
        (mask::RNR_RETRY, &qp.rnr_retry, command.u8(107)?.into()),
    ] {
        if is_given(bit) {
            field.store(value, Release);
        }
    }
    Ok(())
}

/// `ERESTART` as [`Fabric::lock`]: the states for which that can be have no attributes.
fn change_state(cx: &mut Context<'_>, index: usize, from: u8, to: u8) -> Result<()> {
    let fabric = &*cx.fabric;
    let qp = &fabric.arena.qps[index];
    let qpn = qp.live.load(Acquire);
    match to {
        state::ERR if !fabric.actor().enter_error(qpn) => return Err(Errno::ERESTART),
        state::ERR => {}
        state::RESET => {
            let _guards = (fabric.lock(&qp.send_lock)?, fabric.lock(&qp.recv_lock)?);
            qp.state.store(to.into(), Release);
            qp.stall.store(0, Release);
            qp.sq_consumer.store(0, Release);
            if let Some(ring) = fabric.arena.ring(&qp.sq) {
                ring.init_header();
            }
            qp.rq_consumer.store(0, Release);
            qp.rq_posted.store(0, Release);
            if let Some(ring) = fabric.arena.ring(&qp.rq) {
                ring.init_header();
            }
        }
        _ => {
            qp.state.store(to.into(), Release);
            // In SQD an idle queue reports that it is drained; back in RTS it goes on.
            if from != to && matches!(to, state::RTS | state::SQD) {
                fabric.actor().run_send_queue(qpn);
            }
        }
    }
    Ok(())
}

pub(super) fn destroy_qp(cx: &mut Context<'_>) -> Result<Outcome> {
    let handle = cx.command.u32(8)?;
    let index = cx.file.handles.index(handle, Kind::Qp)?;
    if cx.fabric.members_of(index).next().is_some() {
        return Err(Errno::EBUSY);
    }
    cx.fabric.release_qp(index)?;
    cx.file.handles.remove(handle);
    let reported = cx.file.forget_async(handle);
    let mut answer = Answer::new(4);
    answer.u32(0, reported);
    Ok(answer.into())
}
