//! Each step of connecting begins when the event of the one before it was fetched, and the connection has
//! a queue pair.

use soft_hca_record::entry::ConnectionEvent;
use soft_hca_verbs::CmEvent;

use crate::facts::{At, Run};
use crate::verdict::{Verdict, Wrong, wrong};
use crate::words::words;

/// librdmacm makes `RDMA_CM_EVENT_ESTABLISHED` of it for a client with a queue pair.
const ESTABLISHED: [CmEvent; 2] = [CmEvent::CONNECT_RESPONSE, CmEvent::ESTABLISHED];

/// The calls that wait for their event themselves on a synchronous id.
const WAIT: [&str; 3] = ["rdma_resolve_addr", "rdma_resolve_route", "rdma_connect"];

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let events = run.connection_events(run.student);
    let resolve_addr = step(run, "rdma_resolve_addr")?;
    is_asynchronous(run, &events)?;
    // No call shows what was too early: without a device librdmacm makes none.
    if fetched(&events, &[CmEvent::ADDR_RESOLVED]).is_none() {
        return wrong(
            words!(
                "RDMA_CM_EVENT_ADDR_RESOLVED was never fetched, and without it the id has no \
                 device for the next step",
                "一直没有取 RDMA_CM_EVENT_ADDR_RESOLVED；没有它，标识符还没有设备，\
                 走不了下一步"
            ),
            [resolve_addr],
        );
    }
    step(run, "rdma_resolve_route")?;
    let connect = step(run, "rdma_connect")?;
    let route_resolved = fetched(&events, &[CmEvent::ROUTE_RESOLVED]);
    follows("rdma_connect", connect, CmEvent::ROUTE_RESOLVED, route_resolved)?;
    let created = run.done(run.student, "ibv_create_qp").first().map(|(index, _)| *index);
    if created.is_none_or(|created| created > connect) {
        return wrong(
            words!(
                "rdma_connect was called before there was a queue pair: it tells the peer \
                 its number",
                "还没有队列对就调用了 rdma_connect：它要把队列对的编号告诉对端"
            ),
            [Some(connect), created].into_iter().flatten(),
        );
    }
    let Some(established) = fetched(&events, &ESTABLISHED) else {
        return wrong(
            words!(
                "RDMA_CM_EVENT_ESTABLISHED was never fetched: the queue pair is not ready \
                 before",
                "一直没有取 RDMA_CM_EVENT_ESTABLISHED：在它之前，队列对还没有就绪"
            ),
            [resolve_addr, connect],
        );
    };
    let (sent, send) = run.only_send(run.student)?;
    if sent < established {
        return wrong(
            words!(
                "the message was sent before RDMA_CM_EVENT_ESTABLISHED was fetched",
                "还没有取到 RDMA_CM_EVENT_ESTABLISHED，消息就发了"
            ),
            [sent, established],
        );
    }
    run.is_complete((sent, send))?;
    let hung_up = run.done(run.student, "rdma_disconnect").first().map(|(index, _)| *index);
    match (hung_up, fetched(&events, &[CmEvent::DISCONNECTED])) {
        (Some(hung_up), None) => wrong(
            words!(
                "RDMA_CM_EVENT_DISCONNECTED was never fetched: rdma_disconnect, too, only \
                 begins",
                "一直没有取 RDMA_CM_EVENT_DISCONNECTED：rdma_disconnect 也只是开个头"
            ),
            [hung_up],
        ),
        _ => Ok(()),
    }
}

/// Checks that the program fetches the events. The calls wait for their events themselves if the id
/// has no event channel of the program's.
fn is_asynchronous(run: &Run, events: &[At<'_, ConnectionEvent>]) -> Verdict {
    let waits = events.iter().find_map(|(index, event)| {
        let call = run.called(*index).filter(|call| WAIT.contains(call))?;
        Some((*index, call, event.event))
    });
    match waits {
        Some((index, call, event)) => wrong(
            words!(
                "{call} has waited for {event} itself: the id is a synchronous one, \
                 without an event channel of yours",
                "{call} 自己等了 {event}：这个标识符是同步的，没有用你自己的事件通道"
            ),
            [index],
        ),
        None => Ok(()),
    }
}

/// The first call of that name, be it refused.
fn step(run: &Run, name: &str) -> Result<usize, Wrong> {
    match run.calls(run.student, name).first() {
        Some((index, _)) => Ok(*index),
        None => Err(Wrong {
            what: words!("{name} was not called", "没有调用 {name}"),
            entries: vec![],
        }),
    }
}

fn fetched(events: &[At<'_, ConnectionEvent>], wanted: &[CmEvent]) -> Option<usize> {
    let mut found = events.iter().filter(|(_, event)| wanted.contains(&event.event));
    found.next().map(|(index, _)| *index)
}

fn follows(call: &str, called: usize, event: CmEvent, fetched: Option<usize>) -> Verdict {
    if fetched.is_some_and(|fetched| fetched < called) {
        return Ok(());
    }
    wrong(
        words!(
            "{call} was called before {event} was fetched, which says that it may be",
            "还没有取到 {event} 就调用了 {call}：有了这个事件才可以调用"
        ),
        [Some(called), fetched].into_iter().flatten(),
    )
}
