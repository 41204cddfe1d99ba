use proptest::prelude::*;

use super::occasion::{Chance, Occasion};
use super::value::{Duration, Probability};
use super::*;

fn plan(text: &str) -> Plan {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    text.parse::<Plan>().expect_err(text).to_string()
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
        "reorder",
        "reorder:by=3,2%",
        "corrupt:100%,times=2",
        "duplicate:0.0001%",
        "drop:1% delay:1s seed=18446744073709551615",
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
    ] {
        assert_eq!(plan(one), plan(other));
    }
    let both = plan("drop seed=1").and(plan("corrupt seed=2"));
    assert_eq!(both, plan("drop corrupt seed=2"));
    assert_eq!(plan("drop seed=1").and(plan("")), plan("drop seed=1"));
    assert!(plan("seed=1").is_empty());
}

#[test]
fn what_is_wrong_is_named() {
    for (text, said) in [
        (
            "dorp",
            "\"dorp\" is no fault: it is drop, duplicate, corrupt, delay or reorder, or seed=N",
        ),
        ("", ""),
        (
            "drop:every=3",
            "drop has no \"every\": it takes P%, nth=N, times=N, dir=send, dir=receive, qp=N",
        ),
        (
            "drop:by=3",
            "drop has no \"by\": it takes P%, nth=N, times=N, dir=send, dir=receive, qp=N",
        ),
        (
            "drop:5ms",
            "drop cannot take \"5ms\": a part is P%, nth=N, times=N, dir=send, dir=receive, qp=N",
        ),
        (
            "drop:",
            "drop cannot take \"\": a part is P%, nth=N, times=N, dir=send, dir=receive, qp=N",
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
        ("drop:dir=up", "dir=up will not do: a direction is send or receive"),
        (
            "drop:qp=16777216",
            "qp=16777216 will not do: a queue pair's number is below 2^24, in decimal or with 0x in front",
        ),
        ("delay:1%", "delay needs for: a duration is 200us, 5ms or 1s, up to 3600s"),
        ("delay:5", "delay needs for: a duration is 200us, 5ms or 1s, up to 3600s"),
        ("delay:for=3601s", "for=3601s will not do: a duration is 200us, 5ms or 1s, up to 3600s"),
        ("seed=x", "seed=x will not do: it is a whole number"),
        ("seed=1 seed=2", "seed is there twice in \"seed=2\""),
    ] {
        if !text.is_empty() {
            assert_eq!(refusal(text), said, "{text}");
        }
    }
}

#[test]
fn an_occasion_comes_as_often_as_it_says() {
    let count = |text: &str, seed| {
        let mut counting = Counting::new(plan(text).packets[0].occasion);
        let mut random = Random::new(seed);
        (1..=100_000u32).filter(|_| counting.happens(&mut random)).collect::<Vec<_>>()
    };
    assert_eq!(count("drop", 1).len(), 100_000);
    assert_eq!(count("drop:nth=3", 1), [3]);
    assert_eq!(count("drop:times=3", 1), [1, 2, 3]);
    assert_eq!(count("drop:0%", 1), [0; 0]);
    let times = count("drop:1%", 1).len();
    assert!((900..1100).contains(&times), "{times}");
    assert_eq!(count("drop:1%", 1), count("drop:1%", 1));
    assert_ne!(count("drop:1%", 1), count("drop:1%", 2));
    assert_eq!(count("drop:1%,times=5", 1), count("drop:1%", 1)[..5]);
}

fn occasion() -> impl Strategy<Value = Occasion> {
    let times = proptest::option::of(1u32..);
    let chance = prop_oneof![
        Just(Chance::All),
        (0u32..=1_000_000).prop_map(|millionths| Chance::Some(Probability::new(millionths))),
        (1u32..).prop_map(Chance::Nth),
    ];
    (chance, times).prop_map(|(chance, times)| match chance {
        Chance::Nth(_) => Occasion { chance, times: None },
        _ => Occasion { chance, times },
    })
}

fn fault() -> impl Strategy<Value = PacketFault> {
    let duration = (0u64..=3_600_000, 0u32..4)
        .prop_map(|(number, power)| Duration { ns: number * 10u64.pow(2 * power) });
    let kind = prop_oneof![
        Just(Kind::Drop),
        Just(Kind::Duplicate),
        Just(Kind::Corrupt),
        duration.prop_map(Kind::Delay),
        (1u32..).prop_map(Kind::Reorder),
    ];
    let direction = prop_oneof![Just(Direction::Send), Just(Direction::Receive)];
    let direction = proptest::option::of(direction);
    let qpn = proptest::option::of(0u32..1 << 24);
    (kind, occasion(), direction, qpn).prop_map(|(kind, occasion, direction, qpn)| PacketFault {
        kind,
        occasion,
        direction,
        qpn,
    })
}

proptest! {
    #[test]
    fn every_plan_can_be_written_and_read(
        packets in proptest::collection::vec(fault(), 0..4),
        seed in proptest::option::of(any::<u64>()),
    ) {
        let one = Plan { packets, seed };
        prop_assert_eq!(one.to_string().parse::<Plan>(), Ok(one));
    }

    #[test]
    fn any_text_is_a_plan_or_refused(text in "(seed=|drop|delay|reorder|[:,=;%. a-z0-9]){0,12}") {
        if let Ok(one) = text.parse::<Plan>() {
            prop_assert_eq!(one.to_string().parse::<Plan>(), Ok(one));
        }
    }
}
