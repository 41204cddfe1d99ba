use std::io::Write;
use std::process::{Command, Stdio};

use super::*;
use crate::file::samples::{EVERY, SAMPLE, read};

fn sample() -> Trace {
    let (header, entries) = read(SAMPLE);
    Trace::decode(&trace(&header, &entries)[..]).unwrap()
}

fn track_events(trace: &Trace) -> Vec<(u64, &TrackEvent)> {
    let events = trace.packet.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackEvent(event)) => Some((packet.timestamp.unwrap(), event)),
        _ => None,
    });
    events.collect()
}

fn name(event: &TrackEvent) -> &str {
    event.name.as_deref().unwrap_or_default()
}

#[test]
fn a_trace_is_in_order_of_time_and_slices_nest() {
    slices_nest(&sample());
    let (header, entries) = read(EVERY);
    slices_nest(&packets(&header, &entries));
}

fn slices_nest(trace: &Trace) {
    let events = track_events(trace);
    assert!(events.is_sorted_by_key(|event| event.0));
    let mut open = HashMap::new();
    for (t, event) in events {
        let depth = open.entry(event.track_uuid.unwrap()).or_insert(0);
        match event.r#type() {
            Type::SliceBegin => *depth += 1,
            Type::SliceEnd => *depth -= 1,
            Type::Instant => {}
            Type::Unspecified => panic!("{event:?}"),
        }
        assert!(*depth >= 0, "at {t}: {event:?}");
    }
    assert!(open.into_values().all(|depth| depth == 0));
}

#[test]
fn each_flow_leads_from_one_event_to_another() {
    let trace = sample();
    let mut flows = BTreeMap::<u64, Vec<&TrackEvent>>::new();
    for (_, event) in track_events(&trace) {
        event.flow_ids.iter().for_each(|flow| flows.entry(*flow).or_default().push(event));
    }
    let ends = flows.values().map(|ends| {
        let [from, to] = ends[..] else { panic!("{ends:?}") };
        (name(from), name(to))
    });
    let expected = [
        ("post IBV_WR_SEND", "execute IBV_WR_SEND"),
        ("post receive", "execute IBV_WR_SEND"),
        ("execute IBV_WR_SEND", "IBV_WC_RECV"),
        ("execute IBV_WR_SEND", "IBV_WC_SEND"),
        ("execute IBV_WR_RDMA_WRITE: IBV_WC_REM_ACCESS_ERR", "IBV_WC_REM_ACCESS_ERR"),
    ];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

/// A receive's completion may be written before the request counts as executed.
#[test]
fn arrows_lead_forward_in_time() {
    let (header, mut entries) = read(SAMPLE);
    let at = |wanted: &str| {
        let is_wanted = |entry: &Entry| format!("{:?}", entry.what).starts_with(wanted);
        entries.iter().position(is_wanted).unwrap()
    };
    let (executed, received) = (at("Executed"), at("Completion"));
    let (before, after) = (entries[executed].t, entries[received].t);
    entries.swap(executed, received);
    (entries[executed].t, entries[received].t) = (before, after);
    let trace = packets(&header, &entries);
    let events = track_events(&trace);
    let received = events.iter().find(|(_, event)| name(event) == "IBV_WC_RECV").unwrap().1;
    let [flow] = received.flow_ids[..] else { panic!("{received:?}") };
    let ends = events.iter().filter(|(_, event)| event.flow_ids.contains(&flow));
    let ends = ends.map(|(_, event)| name(event)).collect::<Vec<_>>();
    assert_eq!(ends, ["post IBV_WR_SEND", "IBV_WC_RECV"]);
}

#[test]
fn processes_and_threads_have_tracks() {
    let trace = sample();
    let tracks = trace.packet.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackDescriptor(track)) => Some((track.uuid.unwrap(), track)),
        _ => None,
    });
    let tracks = tracks.collect::<BTreeMap<_, _>>();
    let processes = tracks.values().filter_map(|track| track.process.as_ref());
    let processes = processes.map(|process| (process.pid(), process.process_name()));
    assert_eq!(processes.collect::<Vec<_>>(), [(4720, "ping-sr-1"), (4721, "ping-sr-1")]);
    let place = |wanted: &str| {
        let events = track_events(&trace);
        let (t, event) = *events.iter().find(|(_, event)| name(event) == wanted).unwrap();
        let track = tracks[&event.track_uuid.unwrap()];
        let process = tracks[&track.parent_uuid.unwrap()].process.as_ref().unwrap();
        (t, process.pid(), track.thread.as_ref().map(ThreadDescriptor::tid))
    };
    assert_eq!(place("ibv_create_qp"), (1_200_000, 4721, Some(4721)));
    // The sender's thread takes the receive and completes it.
    assert_eq!(place("IBV_WC_RECV"), (2_003_100, 4720, None));
    assert_eq!(place("rdma_get_cm_event"), (300_000, 4720, Some(4720)));
}

#[test]
fn events_have_the_entrys_fields() {
    let trace = sample();
    let text = |wanted: &str| {
        let events = track_events(&trace);
        let (_, event) = events.iter().find(|(_, event)| name(event) == wanted).unwrap();
        plain(&event.debug_annotations)
    };
    assert_eq!(
        text("ibv_reg_mr"),
        "args={pd=0 addr=0x7f0000001000 length=16 access=IBV_ACCESS_LOCAL_WRITE} \
         result={mr=0 lkey=0x181 rkey=0x181}"
    );
    assert_eq!(
        text("ibv_modify_qp"),
        "args={qp=4097 qp_state=IBV_QPS_RTS} \
         result={error=EINVAL (22) reason=the queue pair is in no state that may go to RTS}"
    );
    let send = text("post IBV_WR_SEND");
    assert!(send.contains("send_flags=IBV_SEND_SIGNALED"), "{send}");
    assert!(send.contains("sg_list=[{address=0x"), "{send}");
    assert!(text("IBV_WC_RECV").ends_with(" by=1"));
}

fn plain(annotations: &[DebugAnnotation]) -> String {
    let text = annotations.iter().map(|annotation| {
        let name = annotation.name.as_ref().map_or(String::new(), |name| format!("{name}="));
        let value = match &annotation.value {
            Some(message::Value::Bool(value)) => value.to_string(),
            Some(message::Value::Uint(value)) => value.to_string(),
            Some(message::Value::Int(value)) => value.to_string(),
            Some(message::Value::String(value)) => value.clone(),
            Some(message::Value::Pointer(value)) => format!("{value:#x}"),
            None if annotation.array_values.is_empty() => {
                format!("{{{}}}", plain(&annotation.dict_entries))
            }
            None => format!("[{}]", plain(&annotation.array_values)),
        };
        name + &value
    });
    text.collect::<Vec<_>>().join(" ")
}

/// Missing entries do no harm: any part of a record makes a trace whose flows have both ends.
#[test]
fn parts_of_a_record_make_traces() {
    let (header, entries) = read(SAMPLE);
    for first in 0..entries.len() {
        for last in first..entries.len() {
            let packets = packets(&header, &entries[first..last]);
            let mut flows = HashMap::<u64, usize>::new();
            let events = track_events(&packets);
            let begun = events.iter().filter(|event| event.1.r#type() == Type::SliceBegin);
            let ended = events.iter().filter(|event| event.1.r#type() == Type::SliceEnd);
            assert_eq!(begun.count(), ended.count());
            for (_, event) in events {
                event.flow_ids.iter().for_each(|flow| *flows.entry(*flow).or_default() += 1);
            }
            assert!(flows.into_values().all(|ends| ends == 2));
        }
    }
}

/// A message as `protoc` prints it, without knowing its type: numbers of fields and values.
#[derive(Debug, Default)]
struct Raw(Vec<(u32, String, Raw)>);

impl Raw {
    fn parse(lines: &mut dyn Iterator<Item = &str>) -> Self {
        let mut fields = Vec::new();
        while let Some(line) = lines.next() {
            match line.trim().split_once([' ', ':']) {
                Some((number, "{")) => {
                    fields.push((number.parse().unwrap(), String::new(), Self::parse(lines)));
                }
                Some((number, value)) => {
                    let value = value.trim().trim_matches('"').into();
                    fields.push((number.parse().unwrap(), value, Self::default()));
                }
                None => break,
            }
        }
        Self(fields)
    }

    fn all(&self, number: u32) -> impl Iterator<Item = &(u32, String, Raw)> {
        self.0.iter().filter(move |field| field.0 == number)
    }

    fn value(&self, number: u32) -> Option<&str> {
        self.all(number).next().map(|field| &field.1[..])
    }

    fn message(&self, number: u32) -> Option<&Raw> {
        self.all(number).next().map(|field| &field.2)
    }
}

/// As another program reads the bytes: field numbers as in Perfetto's definitions.
#[test]
fn protoc_reads_a_trace() {
    let (header, entries) = read(SAMPLE);
    let mut protoc = Command::new("protoc");
    protoc.arg("--decode_raw").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut protoc = match protoc.spawn() {
        Ok(protoc) => protoc,
        Err(error) => {
            let why = format!("protoc cannot be run (package protobuf-compiler): {error}");
            return needs::missing(why);
        }
    };
    protoc.stdin.take().unwrap().write_all(&trace(&header, &entries)).unwrap();
    let output = protoc.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let raw = Raw::parse(&mut text.lines());
    let packets = raw.all(1).map(|field| &field.2).collect::<Vec<_>>();
    assert_eq!(packets.len(), raw.0.len());
    assert!(packets.iter().all(|packet| packet.value(10) == Some("1")));
    assert_eq!(packets[0].value(13), Some("1"));
    let clocks = packets[0].message(6).unwrap();
    let clocks = clocks.all(1).map(|clock| (clock.2.value(1).unwrap(), clock.2.value(2).unwrap()));
    // 2026-11-23 01:20:00.
    let expected = [("6", "0"), ("1", "1795396800000000000")];
    assert_eq!(clocks.collect::<Vec<_>>(), expected);
    let pids = packets.iter().filter_map(|packet| packet.message(60)?.message(3)?.value(1));
    assert_eq!(pids.collect::<Vec<_>>(), ["4720", "4721"]);
    let send = packets.iter().find_map(|packet| {
        let event = packet.message(11)?;
        (event.value(23)? == "execute IBV_WR_SEND").then_some((packet.value(8)?, event))
    });
    let (t, event) = send.unwrap();
    assert_eq!((t, event.value(9), event.all(47).count()), ("2003000", Some("3"), 4));
    let arguments = event.all(4).map(|argument| argument.2.value(10).unwrap());
    assert!(arguments.eq(["qp", "wr_id", "opcode", "status", "length", "receive"]));
}
