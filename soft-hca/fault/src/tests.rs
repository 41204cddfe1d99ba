use proptest::prelude::*;
use soft_hca_roce::wire::bth::Qpn;
use soft_hca_roce::wire::opcode::Service;
use soft_hca_verbs::{ErrorNumber, WcStatus};

use super::call::{End, Scope};
use super::device::At;
use super::trigger::{Chance, Trigger};
use super::value::{Duration, Probability};
use super::*;

fn plan(text: &str) -> Plan {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    text.parse::<Plan>().expect_err(text).to_string()
}

#[test]
fn a_plan_knows_whether_data_are_damaged() {
    assert!(plan("completion:damaged,nth=2").damages());
    assert!(!plan("completion:bytes=7").damages());
}

#[test]
fn plans_read_as_they_were_written() {
    for text in [
        "",
        "drop",
        "drop:1%",
        "drop:0.05%",
        "drop:nth=3,dir=send,qp=17",
        "delay:5ms,10%",
        "delay:200us,nth=7,dir=receive",
        "reorder:by=2,nth=7,dir=receive,qp=17,service=uc",
        "reorder",
        "reorder:by=3,2%",
        "corrupt:100%,times=2",
        "duplicate:0.0001%",
        "drop:1% delay:1s seed=18446744073709551615",
        "ibv_reg_mr:errno=ENOMEM,nth=2",
        "ibv_post_send:errno=EIO,delay=5ms,10%,times=2,per=qp,program=ping-sr-1-client",
        "rdma_connect:kill,nth=3,qp=17",
        "ibv_ack_cq_events:delay=1s",
        "ibv_post_recv:skip,delay=1s,times=2,qp=17",
        "ibv_alloc_pd:errno=4095",
        "completion:status=IBV_WC_WR_FLUSH_ERR,dir=receive,nth=2,qp=17",
        "completion:bytes=7,dir=receive,nth=2",
        "completion:damaged,times=1",
        "port-down:device=rxe0/1",
        "port-down:device=rxe1/2,after=200ms,for=1s",
        "device-removed:device=rxe1",
        "port-down:device=rxe1/1,at=ibv_post_send,nth=1000,per=qp,after=10ms..1s",
        "device-removed:device=rxe1,at=rdma_connect,1%,program=ping-sr-1-client,for=1s",
        "device-removed:device=rxe1,after=200ms,for=1s",
        "list",
        "corrupt ibv_reg_mr:kill completion:status=IBV_WC_SUCCESS list seed=7",
    ] {
        assert_eq!(plan(text).to_string(), text);
    }
}

#[test]
fn there_is_more_than_one_way_to_write_it() {
    for (one, other) in [
        ("drop:p=1%", "drop:1.0%"),
        ("delay:for=5ms,p=10%", "delay:10%,5000us"),
        ("drop:qp=0x11", "drop:qp=17"),
        ("drop:dir=recv;seed=7", "  seed=7 ; drop:dir=receive"),
        ("reorder:by=1", "reorder"),
        ("ibv_reg_mr:ENOMEM", "ibv_reg_mr:errno=12"),
        ("ibv_reg_mr:nth=1,5ms,kill", "ibv_reg_mr:kill,delay=5000us,nth=1"),
        ("rdma_post_send:EIO", "ibv_post_send:EIO"),
        ("ibv_reg_mr_iova2:EIO", "ibv_reg_mr:EIO"),
        ("port-down:for=1s,device=rxe1,after=0us", "port-down:device=rxe1/1,for=1000ms"),
        ("completion:GENERAL_ERR", "completion:status=IBV_WC_GENERAL_ERR"),
    ] {
        assert_eq!(plan(one), plan(other));
    }
    let both = plan("drop seed=1").and(plan("corrupt seed=2"));
    assert_eq!(both, plan("drop corrupt seed=2"));
    assert_eq!(plan("drop seed=1").and(plan("")), plan("drop seed=1"));
    assert!(plan("seed=1").is_empty());
}

#[test]
fn packets_and_programs_get_each_their_own() {
    let split = |text: &str| {
        let (packets, devices, programs) = plan(text).split();
        assert_eq!(devices, []);
        (packets.to_string(), programs.map(|programs| programs.to_string()))
    };
    let programs = |text: &str| Some(text.to_string());
    assert_eq!(split(""), (String::new(), None));
    assert_eq!(split("drop seed=1"), ("drop seed=1".into(), None));
    assert_eq!(split("seed=1"), ("seed=1".into(), None));
    assert_eq!(split("list"), (String::new(), programs("list")));
    let kill = "ibv_reg_mr:kill seed=1";
    assert_eq!(split(kill), (String::new(), programs(kill)));
    assert_eq!(split(&format!("drop {kill}")), ("drop seed=1".into(), programs(kill)));
    let (packets, devices, none) = plan("port-down:device=rxe0 seed=1").split();
    assert_eq!((packets.is_empty(), devices.len(), none), (true, 1, None));
    let at_call = "port-down:device=rxe0/1,at=ibv_post_send,nth=3 seed=1";
    let (_, devices, at_calls) = plan(at_call).split();
    assert_eq!((devices, at_calls.map(|plan| plan.to_string())), (vec![], programs(at_call)));
}

#[test]
fn the_help_has_every_call_and_short_lines() {
    let help = help();
    for name in Verb::names() {
        assert!(help.split_whitespace().any(|word| word == name), "{name}");
    }
    assert!(help.lines().all(|line| line.len() <= 101), "{help}");
}

#[test]
fn what_is_wrong_is_named() {
    for (text, said) in [
        (
            "dorp",
            "\"dorp\" is no fault: it is a call such as ibv_post_send, completion, drop, duplicate, \
             corrupt, delay, reorder, port-down, device-removed, list or seed=N",
        ),
        ("", ""),
        (
            "drop:every=3",
            "drop has no \"every\": it takes P%, nth=N, times=N, dir=send, dir=receive, qp=N, service=rc, uc or ud",
        ),
        (
            "drop:by=3",
            "drop has no \"by\": it takes P%, nth=N, times=N, dir=send, dir=receive, qp=N, service=rc, uc or ud",
        ),
        (
            "drop:5ms",
            "drop cannot take \"5ms\": a part is P%, nth=N, times=N, dir=send, dir=receive, qp=N, service=rc, uc or ud",
        ),
        (
            "drop:",
            "drop cannot take \"\": a part is P%, nth=N, times=N, dir=send, dir=receive, qp=N, service=rc, uc or ud",
        ),
        ("drop:1%,2%", "p is there twice in \"drop:1%,2%\""),
        ("drop:1%,p=2%", "p is there twice in \"drop:1%,p=2%\""),
        ("drop:nth=1,nth=2", "nth is there twice in \"drop:nth=1,nth=2\""),
        ("drop:p=0.1", "p=0.1 will not do: a probability is 1% or 0.05%, to 0.0001%"),
        ("drop:p=101%", "p=101% will not do: a probability is 1% or 0.05%, to 0.0001%"),
        ("drop:p=0.00001%", "p=0.00001% will not do: a probability is 1% or 0.05%, to 0.0001%"),
        ("drop:nth=0", "nth=0 will not do: it is a whole number from 1 to 2^32 - 1"),
        ("drop:nth=+1", "nth=+1 will not do: it is a whole number from 1 to 2^32 - 1"),
        ("drop:nth=3,1%", "nth=N says which one, so that a probability cannot be there as well"),
        ("drop:nth=3,times=1", "nth=N says which one, so that times=N cannot be there as well"),
        ("drop:service=xrc", "service=xrc will not do: a service is rc, uc or ud"),
        ("drop:dir=up", "dir=up will not do: a direction is send or receive"),
        (
            "drop:qp=16777216",
            "qp=16777216 will not do: a queue pair's number is below 2^24, in decimal or with 0x in front",
        ),
        ("delay:1%", "delay needs for: a duration is 200us, 5ms or 1s, up to 3600s"),
        ("delay:5", "delay needs for: a duration is 200us, 5ms or 1s, up to 3600s"),
        ("delay:for=3601s", "for=3601s will not do: a duration is 200us, 5ms or 1s, up to 3600s"),
        ("ibv_pots_send:EIO", "no call is named \"ibv_pots_send\" (ibv_post_send?)"),
        ("rdma_:EIO", "no call is named \"rdma_\""),
        (
            "ibv_reg_mr",
            "ibv_reg_mr is to fail with errno=NAME, to take longer by delay=DURATION, to kill, or to \
             skip",
        ),
        (
            "ibv_reg_mr:ENOMEN",
            "errno=ENOMEN will not do (ENOMEM or ENODEV or ENOENT?): an error number is a name of errno(3) or \
             from 1 to 4095",
        ),
        (
            "ibv_reg_mr:errno=0",
            "errno=0 will not do: an error number is a name of errno(3) or from 1 to 4095",
        ),
        ("ibv_reg_mr:ENOMEM,errno=EIO", "errno is there twice in \"ibv_reg_mr:ENOMEM,errno=EIO\""),
        ("ibv_reg_mr:kill,kill", "kill is there twice in \"ibv_reg_mr:kill,kill\""),
        ("ibv_reg_mr:kill,EIO", "ibv_reg_mr can have one of errno=NAME, kill and skip"),
        ("ibv_post_recv:skip,kill", "ibv_post_recv can have one of errno=NAME, kill and skip"),
        (
            "ibv_reg_mr:skip",
            "ibv_reg_mr cannot be skipped: what posts work requests, ibv_poll_cq and \
             ibv_req_notify_cq can",
        ),
        (
            "ibv_reg_mr:EIO,qp=17",
            "ibv_reg_mr is about no queue pair: it has neither qp=N nor per=qp",
        ),
        (
            "ibv_reg_mr:die",
            "ibv_reg_mr cannot take \"die\": a part is errno=NAME, delay=DURATION, kill, skip, P%, \
             nth=N, times=N, per=qp, qp=N, program=NAME",
        ),
        (
            "rdma_destroy_qp:EIO",
            "rdma_destroy_qp returns nothing and so cannot fail: it can take longer by \
             delay=DURATION, or kill",
        ),
        ("ibv_post_send:EIO,per=cq", "per=cq will not do: per=qp counts each queue pair by itself"),
        (
            "ibv_reg_mr:EIO,program=/bin/ls",
            "program=/bin/ls will not do: a program is the name of its file, without a folder",
        ),
        (
            "completion:nth=1",
            "completion needs status: a status is a name of ibv_wc_status, as IBV_WC_WR_FLUSH_ERR; \
             or bytes=N, or damaged",
        ),
        (
            "completion:WR_FLUSH_ERR,bytes=7",
            "completion can have one of status=NAME, bytes=N and damaged",
        ),
        (
            "completion:bytes=4294967296",
            "bytes=4294967296 will not do: it is a whole number below 2^32",
        ),
        (
            "completion:WR_FLUSH",
            "status=WR_FLUSH will not do: a status is a name of ibv_wc_status, as \
             IBV_WC_WR_FLUSH_ERR",
        ),
        (
            "completion:status=IBV_WC_WR_FLUSHED_ERR",
            "status=IBV_WC_WR_FLUSHED_ERR will not do (IBV_WC_WR_FLUSH_ERR?): a status is a \
             name of ibv_wc_status, as IBV_WC_WR_FLUSH_ERR",
        ),
        (
            "port-down",
            "port-down needs device: it is a device, as rxe0, or a port of it, as rxe0/2",
        ),
        (
            "port-down:device=rxe0/0",
            "device=rxe0/0 will not do: it is a device, as rxe0, or a port of it, as rxe0/2",
        ),
        (
            "port-down:device=rxe0,after=soon",
            "after=soon will not do: it is a duration, as 200us, 5ms or 1s, up to 3600s, or \
             two, as 10ms..1s",
        ),
        (
            "port-down:device=rxe0,qp=1",
            "port-down has no \"qp\": it takes device=NAME or device=NAME/PORT, after=DURATION and \
             for=DURATION, and at=CALL with P%, nth=N, times=N, per=qp, qp=N and program=NAME",
        ),
        ("device-removed", "device-removed needs device: it is a device, as rxe0"),
        ("device-removed:device=rxe0/1", "device=rxe0/1 will not do: it is a device, as rxe0"),
        (
            "device-removed:device=rxe0,nth=1",
            "device-removed has no \"nth\": it takes device=NAME, after=DURATION and \
             for=DURATION, and at=CALL with P%, nth=N, times=N, per=qp, qp=N and program=NAME",
        ),
        (
            "port-down:device=rxe0,after=1s..1ms",
            "after=1s..1ms will not do: it is a duration, as 200us, 5ms or 1s, up to 3600s, or \
             two, as 10ms..1s",
        ),
        ("port-down:device=rxe0,at=ibv_post", "no call is named \"ibv_post\""),
        (
            "port-down:device=rxe0,at=ibv_reg_mr,per=qp",
            "ibv_reg_mr is about no queue pair: it has neither qp=N nor per=qp",
        ),
        ("list:5", "list cannot take \"5\": a part is nothing"),
        ("seed=x", "seed=x will not do: it is a whole number"),
        ("seed=1 seed=2", "seed is there twice in \"seed=2\""),
    ] {
        if !text.is_empty() {
            assert_eq!(refusal(text), said, "{text}");
        }
    }
}

#[test]
fn a_trigger_fires_as_often_as_it_says() {
    let count = |text: &str, seed| {
        let mut counting = Counting::new(plan(text).packets[0].trigger);
        let mut random = Random::new(seed);
        (1..=100_000u32).filter(|_| counting.fires(&mut random)).collect::<Vec<_>>()
    };
    assert_eq!(count("drop", 1).len(), 100_000);
    assert_eq!(count("drop:nth=3", 1), [3]);
    assert_eq!(count("drop:times=3", 1), [1, 2, 3]);
    assert!(count("drop:0%", 1).is_empty());
    let times = count("drop:1%", 1).len();
    assert!((900..1100).contains(&times), "{times}");
    assert_eq!(count("drop:1%", 1), count("drop:1%", 1));
    assert_ne!(count("drop:1%", 1), count("drop:1%", 2));
    assert_eq!(count("drop:1%,times=5", 1), count("drop:1%", 1)[..5]);
}

fn trigger() -> impl Strategy<Value = Trigger> {
    let times = proptest::option::of(1u32..);
    let chance = prop_oneof![
        Just(Chance::All),
        (0u32..=1_000_000).prop_map(|millionths| Chance::Some(Probability::new(millionths))),
        (1u32..).prop_map(Chance::Nth),
    ];
    (chance, times).prop_map(|(chance, times)| match chance {
        Chance::Nth(_) => Trigger { chance, times: None },
        _ => Trigger { chance, times },
    })
}

fn fault() -> impl Strategy<Value = PacketFault> {
    let kind = prop_oneof![
        Just(Kind::Drop),
        Just(Kind::Duplicate),
        Just(Kind::Corrupt),
        duration().prop_map(Kind::Delay),
        (1u32..).prop_map(Kind::Reorder),
    ];
    let direction = prop_oneof![Just(Direction::Send), Just(Direction::Receive)];
    let direction = proptest::option::of(direction);
    let qpn = proptest::option::of((0u32..1 << 24).prop_map(Qpn::new));
    let service = prop_oneof![Just(Service::Rc), Just(Service::Uc), Just(Service::Ud)];
    let service = proptest::option::of(service);
    (kind, trigger(), direction, qpn, service).prop_map(
        |(kind, trigger, direction, qpn, service)| PacketFault {
            kind,
            trigger,
            direction,
            qpn,
            service,
        },
    )
}

fn scope(has_queue_pair: bool) -> impl Strategy<Value = Scope> {
    let qpn = proptest::option::of(0u32..1 << 24);
    let program = proptest::option::of("[a-z][a-z0-9._-]{0,9}");
    (trigger(), any::<bool>(), qpn, program).prop_map(move |(trigger, per, qpn, program)| Scope {
        trigger,
        per_queue_pair: per && has_queue_pair,
        qpn: qpn.filter(|_| has_queue_pair),
        program,
    })
}

fn duration() -> impl Strategy<Value = Duration> {
    (0u64..=3_600_000, 0u32..4).prop_map(|(n, power)| Duration { ns: n * 10u64.pow(2 * power) })
}

fn call_fault() -> impl Strategy<Value = CallFault> {
    let named = (0..Verb::ALL.len()).prop_map(|index| Verb::index_of(Verb::ALL[index].name));
    let faulty = named.prop_flat_map(|verb| {
        let errno = (1i32..=4095).prop_map(|number| End::Failure(ErrorNumber(number)));
        let end = prop_oneof![Just(End::Done), Just(End::Kill), Just(End::Skip), errno];
        let scope = scope(Verb::ALL[verb].has_queue_pair);
        (Just(verb), end, proptest::option::of(duration()), scope)
    });
    faulty.prop_map(|(verb, end, delay, scope)| {
        let end = match end {
            End::Failure(_) if Verb::ALL[verb].fails == Fails::Never => End::Kill,
            End::Done if delay.is_none() => End::Kill,
            End::Skip if !Verb::ALL[verb].can_be_skipped() => End::Kill,
            end => end,
        };
        CallFault { verb, end, delay, scope }
    })
}

fn device_fault() -> impl Strategy<Value = DeviceFault> {
    let lasts = proptest::option::of(duration());
    let at = (0..Verb::ALL.len(), scope(false))
        .prop_map(|(index, scope)| At { verb: Verb::index_of(Verb::ALL[index].name), scope });
    let port = proptest::option::of(1u8..);
    let after = duration().prop_map(Delay::from);
    ("[a-z][a-z0-9._-]{0,9}", port, proptest::option::of(at), after, lasts)
        .prop_map(|(device, port, at, after, lasts)| DeviceFault { device, port, at, after, lasts })
}

fn completion_fault() -> impl Strategy<Value = CompletionFault> {
    let direction = prop_oneof![Just(Direction::Send), Just(Direction::Receive)];
    let change = prop_oneof![
        (0u32..22).prop_map(|status| Change::Status(WcStatus(status))),
        any::<u32>().prop_map(Change::Bytes),
        Just(Change::Damaged),
    ];
    (change, proptest::option::of(direction), scope(true))
        .prop_map(|(change, direction, scope)| CompletionFault { change, direction, scope })
}

/// When is the same with the same seed.
#[test]
fn a_time_is_drawn_from_the_seed() {
    let drawn = |seed: u64| {
        let text = format!(
            "port-down:device=rxe0,after=10ms..1s \
             device-removed:device=rxe0,after=10ms..1s seed={seed}"
        );
        let (_, devices, _) = plan(&text).split();
        devices.into_iter().map(|fault| fault.after.least().ns).collect::<Vec<_>>()
    };
    assert_eq!(drawn(7), drawn(7));
    assert_ne!(drawn(7), drawn(8));
    let all: Vec<u64> = (0..100).flat_map(drawn).collect();
    assert!(all.iter().all(|ns| (10_000_000..=1_000_000_000).contains(ns)), "{all:?}");
    assert!(all.iter().any(|ns| *ns > 500_000_000) && all.iter().any(|ns| *ns < 500_000_000));
}

proptest! {
    #[test]
    fn every_plan_can_be_written_and_read(
        packets in proptest::collection::vec(fault(), 0..4),
        devices in proptest::collection::vec(device_fault(), 0..3),
        calls in proptest::collection::vec(call_fault(), 0..4),
        completions in proptest::collection::vec(completion_fault(), 0..3),
        lists: bool,
        seed in proptest::option::of(any::<u64>()),
    ) {
        let one = Plan { packets, devices, calls, completions, lists, seed };
        prop_assert_eq!(one.to_string().parse::<Plan>(), Ok(one));
    }

    #[test]
    fn any_text_is_a_plan_or_refused(
        text in "(seed=|drop|delay|reorder|port-down|device-removed|device=|ibv_reg_mr|\
            rdma_connect|completion|\
            list|kill|ENOMEM|\
            errno=|status=|WR_FLUSH_ERR|per=qp|program=|[:,=;%. a-z0-9]){0,12}",
    ) {
        if let Ok(one) = text.parse::<Plan>() {
            prop_assert_eq!(one.to_string().parse::<Plan>(), Ok(one));
        }
    }
}
