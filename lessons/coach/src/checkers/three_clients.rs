//! Three clients at once: all are accepted before any of them asks, each gets the answers to its own
//! questions, and what one of them leaves behind is its own.

use soft_hca_record::arguments::{name, qp};
use soft_hca_record::entry::{Call, ConnectionEvent, Outcome, SendPosted};
use soft_hca_record::value::Name;
use soft_hca_verbs::{CmEvent, WcOpcode, WcStatus};

use crate::facts::{At, Run};
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// How many.
const CLIENTS: usize = 3;

/// A connection by its id, and the queue pairs of both sides.
struct Client {
    id: u32,
    own_qp: u32,
    its_qp: u32,
}

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let events = run.connection_events(run.student);
    let requests: Vec<At<'_, ConnectionEvent>> =
        events.into_iter().filter(|(_, event)| event.event == CmEvent::CONNECT_REQUEST).collect();
    let accepted: Vec<Client> =
        requests.iter().filter_map(|request| client(run, *request)).collect();
    if accepted.len() < CLIENTS {
        return wrong(
            words!(
                "your program has accepted {count} of {CLIENTS} clients, and none of \
                 them asks before all are connected",
                "{CLIENTS} 个客户端，你的程序接受了 {count} 个；它们都连上以后才会提问",
                count = accepted.len()
            ),
            requests.iter().map(|(index, _)| *index),
        );
    }
    for client in &accepted {
        is_asked_first(run, client)?;
    }
    for called in ["ibv_destroy_cq", "ibv_dealloc_pd"] {
        for (index, call) in run.calls(run.student, called) {
            if let Outcome::Refused { error, .. } = &call.result {
                return wrong(
                    words!(
                        "{called} is refused with {error}: what several clients use is \
                         destroyed when the last of them has gone",
                        "{called} 被拒绝，错误是 {error}：几个客户端共用的东西，\
                         要等最后一个离开后才销毁"
                    ),
                    [index],
                );
            }
        }
    }
    for client in &accepted {
        is_served_to_its_end(run, client)?;
    }
    accepted.iter().try_for_each(|client| is_answered(run, client))
}

/// The client of a request, if it was accepted.
fn client(run: &Run, (fetched, event): At<'_, ConnectionEvent>) -> Option<Client> {
    let mut accepts = run.done(run.student, "rdma_accept").into_iter();
    let (_, accept) = accepts.find(|(index, call)| *index > fetched && is_of(call, event.id))?;
    Some(Client { id: event.id, own_qp: qp(&accept.args, "qp_num")?, its_qp: event.qp? })
}

/// Is it a call for this id?
fn is_of(call: &Call, id: u32) -> bool {
    name(&call.args, "id") == Some(Name::CmId(id))
}

/// Sends of a process to a queue pair.
fn sends(run: &Run, process: u32, qp: u32) -> Vec<At<'_, SendPosted>> {
    run.sends(process).into_iter().filter(|(_, send)| send.qp == qp).collect()
}

/// Completions of questions that have come from a client.
fn questions(run: &Run, client: &Client) -> Vec<usize> {
    let completions = run.completions(run.student).into_iter();
    let questions = completions.filter(|(_, completion)| {
        completion.qp == client.own_qp
            && completion.opcode == WcOpcode::RECV
            && completion.status == WcStatus::SUCCESS
    });
    questions.map(|(index, _)| index).collect()
}

/// Before each answer to a client there is a question of its own that was not answered yet.
fn is_asked_first(run: &Run, client: &Client) -> Verdict {
    let questions = questions(run, client);
    for (answers, (index, _)) in sends(run, run.student, client.own_qp).into_iter().enumerate() {
        let asked = questions.iter().filter(|question| **question < index).count();
        if asked <= answers {
            return wrong(
                words!(
                    "an answer was sent to a client that has not asked: each belongs to the \
                     queue pair that the question has come from",
                    "有一个回答发给了没有提问的客户端：问题从哪个队列对来，回答就从哪个发出"
                ),
                [index],
            );
        }
    }
    Ok(())
}

/// The connection, and what it needs, is there as long as its client asks.
fn is_served_to_its_end(run: &Run, client: &Client) -> Verdict {
    let of_id = |called| {
        let calls = run.done(run.student, called).into_iter();
        calls.filter(|(_, call)| is_of(call, client.id)).map(|(index, _)| index).next()
    };
    let mut destroyed = run.done(run.student, "ibv_destroy_qp").into_iter();
    let destroyed = destroyed.find(|(_, call)| qp(&call.args, "qp") == Some(client.own_qp));
    let ends = [of_id("rdma_disconnect"), destroyed.map(|(index, _)| index)];
    let end = ends.into_iter().flatten().min();
    let last = sends(run, run.peer, client.its_qp).last().map(|(index, _)| *index);
    match (end, last) {
        (Some(end), Some(last)) if end < last => wrong(
            words!(
                "a client was cut off that had not hung up: when one goes, the others' queue \
                 pairs stay",
                "有一个客户端还没有断开，就被切断了：一个离开时，别人的队列对要保留"
            ),
            [end, last],
        ),
        _ => Ok(()),
    }
}

/// Each question has an answer, which was executed.
fn is_answered(run: &Run, client: &Client) -> Verdict {
    let asked = sends(run, run.peer, client.its_qp);
    let answers = sends(run, run.student, client.own_qp);
    for send in &answers {
        run.is_executed(*send)?;
    }
    match asked.get(answers.len()) {
        Some((question, _)) => {
            wrong(words!("a question was not answered", "有一个问题没有得到回答"), [*question])
        }
        None => Ok(()),
    }
}
