//! Whoever does not fit is refused instead of accepted, with a reason, and whoever is accepted has as many
//! receives as it sends messages.

use soft_hca_record::arguments::{name, number};
use soft_hca_record::entry::Call;
use soft_hca_record::value::Name;
use soft_hca_verbs::CmEvent;

use crate::facts::{At, Run};
use crate::verdict::{Verdict, wrong};

/// A request for a connection, by the index at which it was fetched, and what was called to answer it.
struct Request<'r> {
    fetched: usize,
    accept: Option<At<'r, Call>>,
    reject: Option<At<'r, Call>>,
}

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let requests = requests(run);
    for Request { accept, reject, .. } in &requests {
        if let (Some((accept, _)), Some((reject, _))) = (accept, reject) {
            return wrong(
                "a request is answered by both rdma_accept and rdma_reject: after rdma_accept the client \
                 has its connection, and can only be disconnected",
                [*accept, *reject],
            );
        }
    }
    if requests.is_empty() {
        return wrong("no request for a connection was fetched", []);
    }
    // In the second run the clients come in the other order.
    let [fits, too_long] = if run.is_strict() { [1, 0] } else { [0, 1] };
    let (fits, too_long) = (requests.get(fits), requests.get(too_long));
    if let Some((reject, _)) = fits.and_then(|request| request.reject) {
        if let Some((accept, _)) = too_long.and_then(|request| request.accept) {
            let why = match run.is_strict() {
                false => "are their numbers read in network byte order?",
                true => {
                    "they come in another order than before, and only what they say tells who fits"
                }
            };
            return wrong(
                format!(
                    "the client whose messages fit was refused, and the one whose messages are too long was \
                     accepted: {why}"
                ),
                [reject, accept],
            );
        }
        let why = match run.is_strict() {
            false => "if it wants to send more than there is room for, it is told how many it may",
            true => "they have as many bytes as there is room for, and not more",
        };
        return wrong(
            format!("a client was refused whose messages fit: {why}"),
            fits.map(|request| request.fetched).into_iter().chain([reject]),
        );
    }
    if let (None, Some((accept, _))) = (fits, too_long.and_then(|request| request.accept)) {
        return wrong(
            "a client was accepted whose messages are too long for the receives: it comes first this time, and only \
             what it says tells that",
            [accept],
        );
    }
    let Some(fits) = fits else {
        return wrong("the second client's request was not fetched", []);
    };
    let Some(accept) = fits.accept else {
        return wrong("a request was not answered by rdma_accept or rdma_reject", [fits.fetched]);
    };
    is_agreed(run, accept)?;
    let Some(too_long) = too_long else {
        return wrong("the second client's request was not fetched", []);
    };
    if let Some((accept, _)) = too_long.accept {
        return wrong(
            "a client was accepted whose messages are too long for the receives",
            [too_long.fetched, accept],
        );
    }
    let Some((reject, call)) = too_long.reject else {
        return wrong(
            "a request was not answered by rdma_reject, which can say why",
            [too_long.fetched],
        );
    };
    if number(&call.args, "private_data_len").unwrap_or_default() == 0 {
        return wrong("the client is not told why: rdma_reject has no private data", [reject]);
    }
    Ok(())
}

fn requests(run: &Run) -> Vec<Request<'_>> {
    let events = run.connection_events(run.student);
    let requests = events.iter().filter(|(_, event)| event.event == CmEvent::CONNECT_REQUEST);
    let requests = requests.map(|&(fetched, event)| {
        // A number may come again when its id is destroyed.
        let mut destroyed = run.calls(run.student, "rdma_destroy_id").into_iter();
        let is_its = |(index, call): &At<'_, Call>| {
            *index > fetched && name(&call.args, "id") == Some(Name::CmId(event.id))
        };
        let end = destroyed.find(is_its).map_or(usize::MAX, |(index, _)| index);
        let find = |called| {
            let mut calls = run.calls(run.student, called).into_iter();
            calls.find(is_its).filter(|(index, _)| *index < end)
        };
        Request { fetched, accept: find("rdma_accept"), reject: find("rdma_reject") }
    });
    requests.collect()
}

/// What the client was told is true: it has a receive for each of its messages.
fn is_agreed(run: &Run, (accept, call): At<'_, Call>) -> Verdict {
    run.is_done((accept, call))?;
    if number(&call.args, "private_data_len").unwrap_or_default() == 0 {
        return wrong(
            "the client is not told how many messages it may send: rdma_accept has no private data",
            [accept],
        );
    }
    let sends = run.sends(run.peer);
    let Some((_, message)) = sends.first() else {
        let said = run.peer_said.last().map_or("nothing", |line| line.as_str());
        return wrong(format!("the client sends nothing, and says: {said}"), [accept]);
    };
    let receives = run.receives(run.student);
    let posted = receives.iter().filter(|(index, _)| *index < accept).count();
    if sends.len() > posted {
        return wrong(
            format!(
                "the client was told that it may send more messages than the {posted} for which receives \
                 were posted before rdma_accept"
            ),
            [Some(accept), sends.get(posted).map(|(index, _)| *index)].into_iter().flatten(),
        );
    }
    if let Some((index, receive)) = receives.iter().find(|(_, one)| one.length < message.length) {
        let (room, length) = (receive.length, message.length);
        return wrong(
            format!("a receive has room for {room} bytes, and the messages have {length}"),
            [*index],
        );
    }
    for send in sends {
        run.is_executed(send)?;
        let received = run.request(send.0).received;
        if received.and_then(|completion| run.polled(completion)).is_none() {
            return wrong(
                "nobody has polled the completion of a message's receive",
                [Some(send.0), received].into_iter().flatten(),
            );
        }
    }
    Ok(())
}
