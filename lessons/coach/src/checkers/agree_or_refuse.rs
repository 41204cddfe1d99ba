//! A client that does not fit is refused instead of accepted, with a reason, and one that is accepted has as many
//! receives as it sends messages.

use soft_hca_record::arguments::{name, number};
use soft_hca_record::entry::Call;
use soft_hca_record::value::Name;
use soft_hca_verbs::CmEvent;

use crate::facts::{At, Run};
use crate::verdict::{Verdict, wrong};
use crate::words::{Words, words};

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
                words!(
                    "a request is answered by both rdma_accept and rdma_reject: after \
                     rdma_accept the client has its connection, and can only be disconnected",
                    "对同一个请求既调用了 rdma_accept 又调用了 rdma_reject：\
                     rdma_accept 之后客户端已经连上，只能再断开"
                ),
                [*accept, *reject],
            );
        }
    }
    if requests.is_empty() {
        return wrong(
            words!("no request for a connection was fetched", "没有取到任何连接请求"),
            [],
        );
    }
    // In the second run the clients come in the other order.
    let [fits, too_long] = if run.is_strict() { [1, 0] } else { [0, 1] };
    let (fits, too_long) = (requests.get(fits), requests.get(too_long));
    if let Some((reject, _)) = fits.and_then(|request| request.reject) {
        if let Some((accept, _)) = too_long.and_then(|request| request.accept) {
            let why = match run.is_strict() {
                false => words!(
                    "are their numbers read in network byte order?",
                    "它们的数字是按网络字节序读的吗？"
                ),
                true => {
                    words!(
                        "they come in another order than before, and only what they say \
                         tells who fits",
                        "这次来的先后与上次不同，谁合适，只能看它们自己怎么说"
                    )
                }
            };
            return wrong(
                words!(
                    "the client whose messages fit was refused, and the one whose \
                     messages are too long was accepted: {why}",
                    "消息放得下的客户端被拒绝了，消息太长的却被接受了：{why}",
                    [why]
                ),
                [reject, accept],
            );
        }
        let why = match run.is_strict() {
            false => words!(
                "if it wants to send more than there is room for, it is told how many it may",
                "如果它想发的条数超过容量，就告诉它可以发几条"
            ),
            true => words!(
                "they have as many bytes as there is room for, and not more",
                "消息的字节数正好等于空间，并没有超过"
            ),
        };
        return wrong(
            words!(
                "a client was refused whose messages fit: {why}",
                "消息放得下的客户端被拒绝了：{why}",
                [why]
            ),
            fits.map(|request| request.fetched).into_iter().chain([reject]),
        );
    }
    if let (None, Some((accept, _))) = (fits, too_long.and_then(|request| request.accept)) {
        return wrong(
            words!(
                "a client was accepted whose messages are too long for the receives: it \
                 comes first this time, and only what it says tells that",
                "接受了一个客户端，它的消息太长，接收请求放不下：这次它先来，\
                 只有它说的数字能说明这一点"
            ),
            [accept],
        );
    }
    let Some(fits) = fits else {
        return wrong(
            words!("the second client's request was not fetched", "没有取到第二个客户端的请求"),
            [],
        );
    };
    let Some(accept) = fits.accept else {
        return wrong(
            words!(
                "a request was not answered by rdma_accept or rdma_reject",
                "有一个请求既没有用 rdma_accept 回答，也没有用 rdma_reject 回答"
            ),
            [fits.fetched],
        );
    };
    is_agreed(run, accept)?;
    let Some(too_long) = too_long else {
        return wrong(
            words!("the second client's request was not fetched", "没有取到第二个客户端的请求"),
            [],
        );
    };
    if let Some((accept, _)) = too_long.accept {
        return wrong(
            words!(
                "a client was accepted whose messages are too long for the receives",
                "接受了一个客户端，它的消息太长，接收请求放不下"
            ),
            [too_long.fetched, accept],
        );
    }
    let Some((reject, call)) = too_long.reject else {
        return wrong(
            words!(
                "a request was not answered by rdma_reject, which can say why",
                "有一个请求没有用 rdma_reject 回答；它可以说明原因"
            ),
            [too_long.fetched],
        );
    };
    if number(&call.args, "private_data_len").unwrap_or_default() == 0 {
        return wrong(
            words!(
                "the client is not told why: rdma_reject has no private data",
                "没有告诉客户端为什么：rdma_reject 没有带私有数据"
            ),
            [reject],
        );
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

/// The client was told the truth: it has a receive for each of its messages.
fn is_agreed(run: &Run, (accept, call): At<'_, Call>) -> Verdict {
    run.is_done((accept, call))?;
    if number(&call.args, "private_data_len").unwrap_or_default() == 0 {
        return wrong(
            words!(
                "the client is not told how many messages it may send: rdma_accept has no \
                 private data",
                "没有告诉客户端可以发几条消息：rdma_accept 没有带私有数据"
            ),
            [accept],
        );
    }
    let sends = run.sends(run.peer);
    let Some((_, message)) = sends.first() else {
        let said =
            run.peer_said.last().map_or_else(|| words!("nothing", "没有说什么"), Words::verbatim);
        return wrong(
            words!(
                "the client sends nothing, and says: {said}",
                "客户端什么也没发，它说：{said}",
                [said]
            ),
            [accept],
        );
    };
    let receives = run.receives(run.student);
    let posted = receives.iter().filter(|(index, _)| *index < accept).count();
    if sends.len() > posted {
        return wrong(
            words!(
                "the client was told that it may send more messages than the {posted} \
                 for which receives were posted before rdma_accept",
                "rdma_accept 之前只提交了 {posted} 个接收请求，\
                 却告诉客户端可以发更多的消息"
            ),
            [Some(accept), sends.get(posted).map(|(index, _)| *index)].into_iter().flatten(),
        );
    }
    if let Some((index, receive)) = receives.iter().find(|(_, one)| one.length < message.length) {
        let (room, length) = (receive.length, message.length);
        return wrong(
            words!(
                "a receive has room for {room} bytes, and the messages have {length}",
                "有一个接收请求只有 {room} 字节的空间，而消息有 {length} 字节"
            ),
            [*index],
        );
    }
    for send in sends {
        run.is_executed(send)?;
        let received = run.request(send.0).received();
        if received.and_then(|completion| run.polled(completion)).is_none() {
            return wrong(
                words!(
                    "nobody has polled the completion of a message's receive",
                    "有一条消息的接收请求，它的工作完成没有被取走"
                ),
                [Some(send.0), received].into_iter().flatten(),
            );
        }
    }
    Ok(())
}
