//! `soft-hca explain` of real programs that do something wrong, `wrong/wrong.py`.

use programs::place::Place;
use programs::{installed, polls_are_seen, pyverbs, write_python};

/// The explanation of a command that is recorded, line by line.
fn explained(place: &Place, command: &[&str]) -> Vec<String> {
    explained_on(place, &[], command)
}

/// The same with options of the fabric.
fn explained_on(place: &Place, options: &[&str], command: &[&str]) -> Vec<String> {
    let record = [&["record", "-o", "run.shr"], options, &["--"], command].concat();
    // It may well fail.
    let output = place.command(&record).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains(" entries in "), "{output:?}");
    let output = place.command(&["explain", "run.shr"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{command:?}:\n{text}");
    // Where a call was made is of no interest here: tests/places.rs looks at that.
    let is_place = |line: &&str| line.starts_with("    in ");
    text.lines().filter(|line| !is_place(line)).map(String::from).collect()
}

/// The same of one of the mistakes; `None` without Python's module.
fn mistake(name: &str) -> Option<Vec<String>> {
    let python = pyverbs()?;
    let place = Place::new(&format!("explain-{name}"));
    write_python(&place, "wrong.py", include_str!("wrong/wrong.py"));
    let lines = explained(&place, &[python.to_str().unwrap(), "wrong.py", name]);
    place.assert_gone();
    Some(lines)
}

/// Lines with all of these words, in this order.
fn assert_lines(lines: &[String], expected: &[&[&str]]) {
    let all = lines.join("\n");
    assert_eq!(lines.len(), expected.len(), "{all}");
    for (line, words) in lines.iter().zip(expected) {
        let mut rest = &line[..];
        for word in *words {
            let at =
                rest.find(word).unwrap_or_else(|| panic!("no \"{word}\" in \"{line}\" of {all}"));
            rest = &rest[at + word.len()..];
        }
    }
}

#[test]
fn each_side_of_a_receive_that_is_too_small() {
    let Some(lines) = mistake("receive_too_small") else { return };
    let check = "the message is longer than the receive: 64 bytes, room for 32";
    let cause = "    usual cause: both sides do not agree on the size of messages";
    assert_lines(
        &lines,
        &[
            &["wr_id=0x64 of qp ", " completes with "],
            &["    why: on the receiver's side, which is this one: ", check],
            &[cause],
            &[],
            &["wr_id=0x1 (IBV_WR_SEND) of qp ", " fails with "],
            &["    why: on the peer's side: ", check],
            &[cause],
        ],
    );
}

#[test]
fn the_header_of_a_datagram() {
    let Some(lines) = mistake("datagram_without_header") else { return };
    let last = lines.len() - 3;
    assert_lines(
        &lines[last..],
        &[
            &["the datagram wr_id=0x1 of qp ", " is sent, and dropped"],
            &["    why: on the peer's side: ", "40 bytes of GRH and 64 of message, room for 64"],
            &["    usual cause: a datagram's receive needs 40 bytes more than the message"],
        ],
    );
}

#[test]
fn a_cause_comes_before_what_follows_from_it() {
    let Some(lines) = mistake("wrong_rkey") else { return };
    assert_lines(
        &lines[..4],
        &[
            &["(IBV_WR_RDMA_WRITE) of qp ", " fails with IBV_WC_REM_ACCESS_ERR"],
            &["    why: in the peer's memory", "no region has the key: key 0x12345"],
            &["    usual cause: the rkey was sent to the peer wrongly (byte order"],
            &["    then: ", ": a work request of qp ", " is flushed", ", 4 times, at last at "],
        ],
    );
    assert!(lines[4..].iter().all(|line| line.starts_with("    then: ")), "{lines:?}");
}

#[test]
fn a_region_without_remote_rights() {
    let Some(lines) = mistake("no_remote_right") else { return };
    assert_lines(
        &lines[..3],
        &[
            &[" fails with IBV_WC_REM_ACCESS_ERR"],
            &["no region has the key: key 0x0"],
            &[
                "    usual cause: the rkey was never set, or is that of a region without any IBV_ACCESS",
            ],
        ],
    );
}

#[test]
fn what_has_become_of_a_key() {
    let Some(lines) = mistake("swapped_rkey") else { return };
    let swapped = ", the same bytes in another order, is that of mr ";
    assert!(lines[1].contains(swapped) && lines[2].contains("usual cause: byte order"));
    let Some(lines) = mistake("deregistered_region") else { return };
    assert!(lines[1].contains("; it was that of mr ") && lines[1].contains(", deregistered "));
}

#[test]
fn what_the_peers_queue_pair_does_not_serve() {
    let Some(lines) = mistake("no_reads") else { return };
    assert_lines(
        &lines[..3],
        &[
            &[" fails with IBV_WC_REM_INV_REQ_ERR"],
            &["    why: on the peer's side: ", "max_dest_rd_atomic is 0"],
            &["    usual cause: the peer's queue pair was not given", "max_dest_rd_atomic"],
        ],
    );
}

#[test]
fn a_queue_pair_that_never_was_and_one_that_was() {
    let Some(lines) = mistake("no_such_queue_pair") else { return };
    assert_lines(
        &lines,
        &[
            &[" fails with IBV_WC_RETRY_EXC_ERR"],
            &[
                "its queue pair does not exist; no qp ",
                " was created in this record, and qp ",
                " is connected to this one",
            ],
            &["    usual cause: dest_qp_num is none of the peer's numbers"],
        ],
    );
    let Some(lines) = mistake("destroyed_queue_pair") else { return };
    assert_lines(
        &lines,
        &[
            &[" fails with IBV_WC_RETRY_EXC_ERR"],
            &["its queue pair does not exist; python3[", "] has destroyed qp ", " before"],
            &["    usual cause: the peer destroys its queue pair"],
        ],
    );
}

#[test]
fn who_is_in_another_partition() {
    let Some(python) = pyverbs() else { return };
    let place = Place::new("explain-partition");
    write_python(&place, "partitions.py", include_str!("partitions/partitions.py"));
    let device = |name: &str| format!("{name}:infiniband,pkey=0x8001,pkey=2");
    let (one, other) = (device("rxe0"), device("rxe1"));
    for (indices, why) in [
        (["1", "0"], "it is in another partition (P_Key 0xffff, and 0x8001 is sent)"),
        (["2", "2"], "both are limited members of their partition (P_Key 0x0002)"),
    ] {
        let script =
            [python.to_str().unwrap(), "partitions.py", "reliable", indices[0], indices[1]];
        let lines = explained_on(&place, &["--device", &one, "--device", &other], &script);
        assert_lines(
            &lines[..3],
            &[
                &[" fails with IBV_WC_RETRY_EXC_ERR"],
                &["    why: on the peer's side: the peer does not answer for ", why],
                &["    usual cause: pkey_index (ibv_modify_qp, to INIT) was left at 0"],
            ],
        );
        place.assert_gone();
    }
}

#[test]
fn receives_are_those_of_the_peer() {
    let Some(lines) = mistake("no_receive") else { return };
    assert_lines(
        &lines,
        &[
            &[" fails with IBV_WC_RNR_RETRY_EXC_ERR"],
            &["min_rnr_timer 1, 0.01 ms); none of its receives was seen in this record"],
            &["    usual cause: the receiver posts its receives too late or too few"],
        ],
    );
}

#[test]
fn an_overrun_is_told_once() {
    let Some(lines) = mistake("overrun") else { return };
    assert_lines(
        &lines[..5],
        &[
            &[": a completion of qp ", " is lost, 2", " times, at last at "],
            &["    why: the completion queue ", " has no room"],
            &["    usual cause: the queue is too small"],
            &["    then: ", "IBV_EVENT_CQ_ERR of cq "],
            &["    then: ", "IBV_EVENT_QP_FATAL of qp "],
        ],
    );
    // The queue pair has failed by that, and answers its peer no more.
    let is_cause = |line: &&String| !line.is_empty() && !line.starts_with(' ');
    let others: Vec<&String> = lines[5..].iter().filter(is_cause).collect();
    assert!(others.len() == 1 && others[0].contains("IBV_WC_RETRY_EXC_ERR"), "{lines:?}");
}

#[test]
fn an_end_in_order_is_no_failure() {
    let Some(lines) = mistake("ends_in_order") else { return };
    assert_lines(&lines, &[&["Nothing went wrong that the device knows of."]]);
}

#[test]
fn what_still_waits_at_an_end_is_told() {
    let ends = [
        ("hangs_and_ends", "its process ended", "the receiver has no receive posted"),
        ("hangs_and_is_killed", "its process ended", "the peer does not answer"),
        ("hangs_and_destroys", "its program destroyed the", "the receiver has no receive posted"),
        ("hangs_and_shuts", "its program put the queue", "the receiver has no receive posted"),
    ];
    for (name, end, check) in ends {
        let Some(lines) = mistake(name) else { return };
        assert_lines(
            &lines,
            &[
                &[": the send work request wr_id=0x1 of qp ", " still waited, for ", " when ", end],
                &["    why: on the peer's side: ", check],
                &["    usual cause: "],
            ],
        );
    }
}

/// A request is put off for less time than Python takes to end, unless it is killed.
#[test]
fn what_was_put_off_at_an_end_is_told() {
    let Some(python) = pyverbs() else { return };
    let place = Place::new("explain-put-off");
    write_python(&place, "wrong.py", include_str!("wrong/wrong.py"));
    let script = [python.to_str().unwrap(), "wrong.py", "put_off_and_is_killed"];
    let lines = explained_on(&place, &["--strict=1"], &script);
    assert_lines(
        &lines,
        &[
            &[
                ": the send work request wr_id=0x1 of qp ",
                " behind it, was not executed, for ",
                ", when its process ended",
            ],
            &["    why: on this side: it was put off, as an adapter may do"],
            &["    usual cause: the program did not wait for the completion of its last send"],
        ],
    );
    place.assert_gone();
}

/// The reason of the first refusal of a call, and its usual cause.
fn refusal_and_cause<'l>(lines: &'l [String], call: &str) -> [&'l str; 2] {
    let is_call = |line: &String| line.contains(&format!(": {call} is refused with "));
    let at = lines.iter().position(is_call).unwrap_or_else(|| panic!("no {call}: {lines:?}"));
    let part = |at: usize, name: &str| lines[at].trim_start().strip_prefix(name).unwrap();
    [part(at + 1, "why: "), part(at + 2, "usual cause: ")]
}

#[test]
fn a_refusals_cause_is_that_of_its_check() {
    let Some(lines) = mistake("beyond_limits") else { return };
    let [_, cause] = refusal_and_cause(&lines, "ibv_post_send");
    assert!(cause.starts_with("the queue pair is not connected yet: ibv_modify_qp"), "{cause}");
    let Some(lines) = mistake("read_only") else { return };
    let [why, cause] = refusal_and_cause(&lines, "ibv_reg_mr");
    assert!(why.starts_with("part of the memory may not be written, "), "{why}");
    assert!(cause.starts_with("a constant, or a mapping without PROT_WRITE"), "{cause}");
    let [why, cause] = refusal_and_cause(&lines[3..], "ibv_reg_mr");
    assert!(why.starts_with("part of the memory is not mapped"), "{why}");
    assert!(cause.starts_with("the buffer was not allocated or is freed"), "{cause}");
    let Some(lines) = mistake("no_gid") else { return };
    let [why, cause] = refusal_and_cause(&lines, "ibv_create_ah");
    assert_eq!(why, "the destination GID is all zeros");
    assert!(cause.starts_with("ah_attr.grh.dgid was not set"), "{cause}");
    let Some(lines) = mistake("refused_posts") else { return };
    for (why, cause) in [
        ("more SGEs than the queue pair's max_send_sge", "asked for fewer SGEs"),
        ("more inline data than", "cap.max_inline_data"),
        ("the address of an atomic operation", "a multiple of 8"),
        ("more SGEs than the queue's max_recv_sge", "asked for fewer SGEs"),
        (
            "receives are posted from INIT on",
            "ibv_modify_qp to INIT, or rdma_create_qp, comes first",
        ),
    ] {
        let at = lines.iter().position(|line| line.contains(&format!("why: {why}"))).unwrap();
        assert!(lines[at + 1].contains(cause), "{why}: {}", lines[at + 1]);
    }
}

/// The reason of the first refusal of a call.
fn refusal<'l>(lines: &'l [String], call: &str) -> &'l str {
    refusal_and_cause(lines, call)[0]
}

#[test]
fn refusals_have_values_and_limits() {
    let Some(lines) = mistake("beyond_limits") else { return };
    assert_eq!(
        refusal(&lines, "ibv_create_cq"),
        "more completions than the device's max_cqe: requested 40000, limit 32767"
    );
    let index = "the port's GID table has no entry at sgid_index: requested 200, entries ";
    assert!(refusal(&lines, "ibv_create_ah").starts_with(index), "{lines:?}");
    assert!(refusal(&lines, "ibv_create_ah").ends_with(", limit 15"), "{lines:?}");
    assert!(refusal(&lines, "ibv_modify_qp").starts_with(index), "{lines:?}");
    let early = "sends are posted in RTS, not before: state IBV_QPS_INIT";
    assert_eq!(refusal(&lines, "ibv_post_send"), early);
    let Some(lines) = mistake("in_use") else { return };
    let used = "the protection domain is still in use: mr ";
    assert!(refusal(&lines, "ibv_dealloc_pd").starts_with(used), "{lines:?}");
}

#[test]
fn statuses_of_connection_events_are_in_words() {
    if !installed(&["rping"]) {
        return;
    }
    let place = Place::new("explain-rping");
    let lines = explained(&place, &["rping", "-c", "-a", "203.0.113.77"]);
    let status = "    why: nobody has answered for the address (status -110, ETIMEDOUT)";
    assert!(lines.iter().any(|line| line == status), "{lines:?}");
    let lines = explained(&place, &["rping", "-c", "-a", "127.0.0.1"]);
    let reason = "    why: nobody listens at this address and port (reason 8, invalid service id)";
    assert!(lines.iter().any(|line| line == reason), "{lines:?}");
    place.assert_gone();
}

#[test]
fn datagrams_that_get_lost() {
    let cases = [
        (
            "datagram_wrong_key",
            " has another Q_Key, 0x11111111, and 0x22222222 is sent",
            "remote_qkey of the work request is not the qkey",
        ),
        (
            "datagram_wrong_number",
            "no queue pair has the number ",
            "remote_qpn was exchanged wrongly (byte order)",
        ),
        (
            "datagram_swapped_number",
            " has the same bytes in another order",
            "remote_qpn was exchanged wrongly (byte order)",
        ),
        ("datagram_to_destroyed", " has destroyed qp ", "remote_qpn was exchanged wrongly"),
        (
            "datagram_to_connected",
            " is none for datagrams (IBV_QPT_UD)",
            "remote_qpn is the number of another queue pair",
        ),
        (
            "datagram_without_receive",
            " has no receive posted; none of its receives was seen in this record",
            "the receiver posts its receives too late or too few: nobody waits for it",
        ),
    ];
    for (name, why, cause) in cases {
        let Some(lines) = mistake(name) else { return };
        assert_lines(
            &lines,
            &[
                &["the datagram wr_id=0x1 of qp ", " is sent, and dropped"],
                &["    why: on the peer's side: nobody takes the datagram: ", why],
                &["    usual cause: ", cause],
            ],
        );
    }
    let Some(lines) = mistake("datagram_too_long") else { return };
    assert_lines(
        &lines,
        &[
            &["(IBV_WR_SEND) of qp ", " fails with IBV_WC_LOC_LEN_ERR"],
            &["    why: on the sender's side: the message is too long: 4097 bytes, limit "],
            &["    usual cause: ", "a datagram beyond the path's MTU"],
        ],
    );
    let Some(lines) = mistake("datagram_that_arrives") else { return };
    assert_lines(&lines, &[&["Nothing went wrong that the device knows of."]]);
}

#[test]
fn what_the_library_refuses_by_itself() {
    if !polls_are_seen() {
        return;
    }
    let Some(lines) = mistake("full_queue") else { return };
    let full = refusal(&lines, "ibv_post_send");
    assert!(full.starts_with("the send queue is full (max_send_wr): posted "), "{lines:?}");
    assert!(full.contains(", requested 32; the send work request wr_id=0x3 of qp "), "{lines:?}");
    assert!(full.contains(" waits: on the peer's side: the receiver has no receive posted"));
    let Some(lines) = mistake("full_receive_queue") else { return };
    let full = refusal(&lines, "ibv_post_recv");
    assert!(full.starts_with("the receive queue is full (max_recv_wr): posted "), "{lines:?}");
    let Some(lines) = mistake("refused_posts") else { return };
    let all = lines.join("\n");
    for why in [
        "more SGEs than the queue pair's max_send_sge: requested 20, limit 1",
        "more inline data than the queue pair's max_inline_data: requested 4096, limit ",
        "the address of an atomic operation is not a multiple of eight: address 0x",
        "more SGEs than the queue's max_recv_sge: requested 20, limit 1",
        "receives are posted from INIT on, not in RESET: state IBV_QPS_RESET",
    ] {
        assert!(all.contains(&format!("    why: {why}")), "no \"{why}\" in {all}");
    }
}
