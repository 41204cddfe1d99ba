//! C's `goto` labels in the examples: a function raises a mark when a step has succeeded, and undoes
//! at its end what the mark says. The compiler takes a mark that is never raised, and what should
//! have been undone then leaks.

use std::fs;

use crate::tree::{files, top};
use regex::Regex;

/// The texts of a file's functions that begin with a mark.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n}\n").filter(|function| function.contains(" = Label::"))
}

/// The mistake in the marks of a function.
fn wrong(function: &str, labels: &[String]) -> Option<String> {
    let names = |pattern: &str| -> Vec<String> {
        let pattern = Regex::new(pattern).unwrap();
        pattern.captures_iter(function).map(|found| found[1].to_owned()).collect()
    };
    let at = |name: &String| labels.iter().position(|label| label == name);
    let begins = names(r"let mut \w+ = Label::(\w+);");
    let raised = names(r"\n +(?:out|err) = Label::(\w+);");
    let undone = names(r"if (?:out|err) >= Label::(\w+)");
    let [begin] = begins.as_slice() else { return Some(format!("begins with {begins:?}")) };
    let marks: Vec<_> = [begin].into_iter().chain(&raised).map(at).collect();
    if !marks.is_sorted_by(|mark, next| mark < next) || marks.contains(&None) {
        return Some(format!("raises {raised:?} after {begin}"));
    }
    let places: Vec<_> = undone.iter().map(at).collect();
    if !places.is_sorted_by(|place, next| place > next) {
        return Some(format!("undoes in the order {undone:?}"));
    }
    if let Some(name) = undone.iter().find(|name| !raised.contains(name) && *name != begin) {
        return Some(format!("never raises {name}, for which it undoes something"));
    }
    let name = raised.iter().find(|name| !undone.contains(name))?;
    Some(format!("raises {name}, for which it undoes nothing"))
}

/// The labels of a file, or of its program, in their order.
fn labels(text: &str) -> Option<Vec<String>> {
    let (_, list) = text.split_once("enum Label {\n")?;
    let (list, _) = list.split_once('}')?;
    Some(list.split(',').map(|label| label.trim().to_owned()).filter(|l| !l.is_empty()).collect())
}

#[test]
fn every_mark_is_raised_and_undone_in_its_order() {
    let (mut complaints, mut seen) = (Vec::new(), 0);
    for example in harness::examples::EXAMPLES {
        let folder = top().join(example.name).join("src");
        let texts: Vec<_> = files(&folder, ".rs")
            .into_iter()
            .map(|file| (fs::read_to_string(&file).unwrap(), file))
            .collect();
        let of_program = texts
            .iter()
            .filter(|(_, file)| file.ends_with("prototypes.rs"))
            .find_map(|(text, _)| labels(text));
        for (text, file) in &texts {
            for function in functions(text) {
                let own = labels(text).or(of_program.clone()).unwrap_or_default();
                seen += 1;
                if let Some(what) = wrong(function, &own) {
                    let name = function.rsplit_once("fn ").map_or("", |(_, name)| name);
                    let name = name.split('(').next().unwrap_or_default();
                    complaints.push(format!("{}: {name} {what}", file.display()));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(seen > 60, "only {seen} functions have marks");
}

#[test]
fn a_forgotten_mark_is_found() {
    let labels = ["Out1", "Out2", "Out3"].map(str::to_owned);
    let function = "\n    let mut out = Label::Out1;\n    a()?;\n    out = Label::Out2;\n    b()?;
    out = Label::Out3;\n    if out >= Label::Out3 {\n    if out >= Label::Out2 {";
    assert_eq!(wrong(function, &labels), None);
    for (mark, what) in [
        ("\n    out = Label::Out2;", "never raises Out2"),
        ("\n    out = Label::Out3;", "never raises Out3"),
        ("\n    if out >= Label::Out2 {", "undoes nothing"),
    ] {
        let found = wrong(&function.replace(mark, ""), &labels).unwrap();
        assert!(found.contains(what), "{found}");
    }
    let exchanged = function.replace("Out2;", "Out4;").replace("Out3;", "Out2;");
    assert!(wrong(&exchanged, &labels).unwrap().starts_with("raises"));
}
