//! Manual pages: what clap knows, and what the help says at its end as sections of their own.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use soft_hca::line;
use soft_hca_core::config;

use crate::NAME;

/// Each page's file name and text: the program's and one for each subcommand.
pub fn pages(command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let subcommands: Vec<Command> = command.get_subcommands().cloned().collect();
    let names: Vec<String> =
        subcommands.iter().map(|subcommand| format!("{NAME}-{}", subcommand.get_name())).collect();
    let mut pages = vec![page(command, true, &names)?];
    for subcommand in subcommands {
        pages.push(page(subcommand, false, &[NAME.to_string()])?);
    }
    Ok(pages)
}

fn page(command: Command, is_whole: bool, see_also: &[String]) -> io::Result<(String, Vec<u8>)> {
    let source = format!("{NAME} {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command).source(source).manual("RDMA in user space");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if is_whole {
        man.render_subcommands_section(&mut text)?;
        examples().to_writer(&mut text)?;
        environment().to_writer(&mut text)?;
        files().to_writer(&mut text)?;
    }
    references(see_also).to_writer(&mut text)?;
    Ok((man.get_filename(), text))
}

/// The help's examples: a purpose, and indented below it the commands.
fn examples() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for line in line::EXAMPLES.lines().skip(1) {
        match line.strip_prefix("    ") {
            None => roff.control("PP", []).text([roman(line.trim_start())]),
            Some(command) => roff
                .control("RS", [])
                .control("nf", [])
                .text([bold(command)])
                .control("fi", [])
                .control("RE", []),
        };
    }
    roff
}

fn environment() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in config::VARIABLES {
        roff.control("TP", []).text([bold(name)]).text([roman(meaning)]);
    }
    roff
}

fn files() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["FILES"]);
    roff.control("TP", []).text([
        bold("$XDG_RUNTIME_DIR/soft-hca/"),
        italic("FABRIC"),
        roman(", "),
        bold("/tmp/soft-hca-"),
        italic("UID"),
        bold("/"),
        italic("FABRIC"),
    ]);
    roff.text([roman("A fabric's folder, gone with the last program in it.")]);
    roff
}

fn references(names: &[String]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let mut line = Vec::new();
    for name in names {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend([bold(name.as_str()), roman("(1)")]);
    }
    roff.text(line);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_for_what_users_see() {
        let pages = pages(crate::visible()).unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        let expected = ["soft-hca.1", "soft-hca-run.1", "soft-hca-record.1", "soft-hca-show.1"];
        assert_eq!(names[..4], expected);
        assert_eq!(
            names[4..],
            [
                "soft-hca-explain.1",
                "soft-hca-check.1",
                "soft-hca-ls.1",
                "soft-hca-port.1",
                "soft-hca-device.1",
                "soft-hca-doctor.1"
            ]
        );
        let whole = String::from_utf8(pages[0].1.clone()).unwrap();
        for section in ["EXAMPLES", "ENVIRONMENT", "FILES"] {
            assert!(whole.contains(&format!(".SH {section}\n")), "{whole}");
        }
        for (name, _) in config::VARIABLES {
            assert!(whole.contains(name), "{whole}");
        }
    }
}
