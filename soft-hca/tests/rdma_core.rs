//! `soft-hca doctor` on the installed rdma-core, and whether its words are true.
//!
//! See `stock.rs` about programs that are not installed, and about those of another release; the
//! packages are ibverbs-utils and python3-pyverbs.

use std::fs;

use programs::place::Place;
use programs::{installed, polls_are_seen, pyverbs, release};

/// The doctor's lines on the library, without the release.
fn sayings(place: &Place) -> Vec<String> {
    let output = place.command(&["doctor"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let (major, minor) = release();
    let start = format!("rdma-core: {major}.{minor}: ");
    let lines = text.lines().filter(|line| line.contains(" rdma-core: "));
    let said = |line: &str| line.split_once(&start).map(|(_, said)| said.to_string());
    lines.map(|line| said(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

#[test]
fn a_release_with_bugs_or_without_is_named() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let place = Place::new("doctor-release");
    let said = sayings(&place);
    assert!(!said.is_empty());
    // Debian's releases that are known by experiment.
    let expected: &[&str] = match release() {
        (44, 0) => &["programs with extended polling ", "what ibv_wr_set_inline_data_list "],
        (56, 1) => &["two threads with extended polling ", "what ibv_wr_set_inline_data_list "],
        (65, 0) => &["no bug "],
        _ => return,
    };
    assert_eq!(said.len(), expected.len(), "{said:?}");
    assert!(said.iter().zip(expected).all(|(line, start)| line.starts_with(start)), "{said:?}");
    place.assert_gone();
}

/// Two queue pairs in one process. Numbers are those of verbs.h, as the module's names have changed.
const SCRIPT: &str = "
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import DataBuffer, QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR
import os

context = Context(name='rxe0')
pd = PD(context)
mr = MR(pd, 4096, 7)
sends, receives = CQEX(context, CqInitAttrEx(cqe=100)), CQ(context, 100)
cap = QPCap(max_send_wr=10, max_recv_wr=10, max_send_sge=2, max_recv_sge=1, max_inline_data=100)
init = QPInitAttrEx(qp_type=2, scq=sends, rcq=receives, cap=cap, pd=pd, send_ops_flags=4, comp_mask=65)
pair = [QPEx(context, init) for _ in range(2)]
for qp, peer in zip(pair, reversed(pair)):
    route = GlobalRoute(dgid=context.query_gid(1, 1), sgid_index=1)
    attr = QPAttr(port_num=1)
    attr.dest_qp_num, attr.path_mtu, attr.timeout, attr.retry_cnt = peer.qp_num, 3, 14, 7
    attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    qp.to_rts(attr)

def poll():
    'How many completions there are to one poll, to its end.'
    count = 0
    if not sends.start_poll(PollCqAttr()):
        count += 1
        while not sends.poll_next():
            count += 1
        sends.end_poll()
    return count

def send(put):
    pair[1].post_recv(RecvWR(sg=[SGE(mr.buf, 100, mr.lkey)], num_sge=1))
    pair[0].wr_start()
    pair[0].wr_id, pair[0].wr_flags = 1, 2
    pair[0].wr_send()
    put()
    pair[0].wr_complete()
    count = 0
    while not count:
        count, completions = receives.poll()
    return completions[0].byte_len

parts = [DataBuffer(mr.buf, 30), DataBuffer(mr.buf + 50, 20)]
print('inline', send(lambda: pair[0].wr_set_inline_data(mr.buf, 50)))
print('list', send(lambda: pair[0].wr_set_inline_data_list(2, parts)))
print('polled', poll(), poll(), flush=True)
os._exit(0)
";

/// Bugs show where they are said to be, and nowhere else.
#[test]
fn what_the_doctor_says_is_so() {
    let Some(python) = pyverbs().filter(|_| installed(&["ibv_devinfo"])) else { return };
    let place = Place::new("doctor-true");
    let said = sayings(&place);
    let is_said = |start: &str| said.iter().any(|line| line.starts_with(start));
    let text = place.python(&python, SCRIPT);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "inline 50", "{text}");
    let is_empty = is_said("what ibv_wr_set_inline_data_list ");
    assert_eq!(lines[1], if is_empty { "list 0" } else { "list 50" }, "{said:?}");
    let loses = is_said("programs with extended polling ");
    assert_eq!(lines[2] != "polled 2 0", loses, "{text}{said:?}");
    if polls_are_seen() {
        // `check` reports a program that does not look at the release.
        let script = place.file("script.py");
        let words = [python.to_str().unwrap(), script.to_str().unwrap()];
        let mut command = place.command(&["check", "--format", "json", "-o", "found", "--"]);
        let status = command.args(words).output().unwrap().status;
        let found = fs::read_to_string(place.file("found")).unwrap();
        assert_eq!(found.contains("\"polled-twice\""), loses, "{status} {found}");
    }
    place.assert_gone();
}
