//! Findings as text for people, as JSON, and as SARIF 2.1.0 for code hosts.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Finding, Rule};
use crate::place::Place;
use crate::time::seconds;

/// The object that a finding is about, and how many more.
fn place(Finding { place, others, .. }: &Finding) -> String {
    match others {
        0 => place.clone(),
        1 => format!("{place} and another"),
        others => format!("{place} and {others} others"),
    }
}

/// A paragraph for each finding, and a line with how many there are.
pub fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let Finding { rule, program, what, t, last, times, source, .. } = finding;
        let place = place(finding);
        let again = if *times > 1 { format!(" ({times} times)") } else { String::new() };
        let _ = writeln!(out, "{}: {program}, {place}: {what}{again}", rule.name());
        if let Some(source) = source {
            let missing = source.missing.as_ref().map(|why| format!("; {why}"));
            let _ = writeln!(out, "    in {source}{}", missing.unwrap_or_default());
        }
        let last = if *times > 1 { format!(", last at {}", seconds(*last)) } else { String::new() };
        let _ = writeln!(out, "    first at {}{last}", seconds(*t));
        let _ = writeln!(out, "    why: {}", rule.why());
        let _ = writeln!(out, "    do: {}", rule.cure());
    }
    let _ = match findings.len() {
        0 => writeln!(out, "Nothing was found."),
        1 => writeln!(out, "1 finding"),
        count => writeln!(out, "{count} findings"),
    };
    out
}

/// An array of objects.
pub fn json(findings: &[Finding]) -> String {
    let findings: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let mut value = serde_json::to_value(finding).unwrap_or_default();
            value["why"] = finding.rule.why().into();
            value["do"] = finding.rule.cure().into();
            value
        })
        .collect();
    format!("{:#}\n", Value::from(findings))
}

/// A line of the source, as SARIF has it.
fn physical(source: &Place) -> Option<Value> {
    let (file, line) = (source.file.as_ref()?, source.line?);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~+@".contains(&byte);
    let mut uri = String::from(if file.starts_with('/') { "file://" } else { "" });
    for byte in file.bytes() {
        let _ = match is_plain(byte) {
            true => write!(uri, "{}", char::from(byte)),
            false => write!(uri, "%{byte:02X}"),
        };
    }
    Some(json!({ "artifactLocation": { "uri": uri }, "region": { "startLine": line } }))
}

/// Static Analysis Results Interchange Format, as code hosts read it.
pub fn sarif(findings: &[Finding]) -> String {
    let rules = Rule::ALL.iter().map(|rule| {
        json!({
            "id": rule.name(),
            "shortDescription": { "text": rule.why() },
            "help": { "text": rule.cure() },
        })
    });
    let results = findings.iter().map(|finding| {
        let Finding { rule, program, what, times, source, .. } = finding;
        let place = place(finding);
        let mut location = json!({
            "logicalLocations": [{ "fullyQualifiedName": format!("{program}/{place}") }],
        });
        if let Some(physical) = source.as_deref().and_then(physical) {
            location["physicalLocation"] = physical;
        }
        json!({
            "ruleId": rule.name(),
            "level": "warning",
            "message": { "text": format!("{place}: {what}. {}", rule.cure()) },
            "locations": [location],
            "occurrenceCount": times,
        })
    });
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "soft-hca check",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.collect::<Vec<_>>(),
            } },
            "results": results.collect::<Vec<_>>(),
        }],
    });
    format!("{log:#}\n")
}
