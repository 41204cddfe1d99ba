//! Makes the wrong programs: each is a patch in its lesson's folder, which shows the mistake alone, and is
//! applied to the program that its `---` line names.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use diffy::Patch;

fn main() -> Result<(), Box<dyn Error>> {
    let lessons = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("..").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // The whole folder: a lesson or a patch may come or go.
    println!("cargo::rerun-if-changed={}", lessons.display());
    let (mut modules, mut table) = (String::new(), String::new());
    for lesson in sorted(&lessons)? {
        let folder = name(&lesson);
        if !folder.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        for path in sorted(&lesson)? {
            let file = name(&path);
            let Some(program) = file.strip_suffix(".patch") else { continue };
            let text = apply(&path).map_err(|error| format!("lessons/{folder}/{file}: {error}"))?;
            let module = format!("lesson_{}_{program}", folder.replace('-', "_"));
            let made = out.join(&module).with_extension("rs");
            fs::write(&made, text)?;
            writeln!(modules, "#[path = {made:?}]\nmod {module};")?;
            writeln!(table, "    (\"{folder}/{program}\", {module}::main),")?;
        }
    }
    let text = format!("{modules}pub(super) const PROGRAMS: &[super::Program] = &[\n{table}];\n");
    fs::write(out.join("wrong.rs"), text)?;
    Ok(())
}

/// The program that a patch makes.
fn apply(patch: &Path) -> Result<String, Box<dyn Error>> {
    let text = fs::read_to_string(patch)?;
    let changes = Patch::from_str(&text)?;
    let base = changes.original().ok_or("no line `--- FILE` says what it is applied to")?;
    let program = fs::read_to_string(patch.with_file_name(base))
        .map_err(|error| format!("{base}: {error}"))?;
    diffy::apply(&program, &changes)
        .map_err(|error| format!("does not apply to {base}, make it anew: {error}").into())
}

fn sorted(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut paths = fs::read_dir(dir)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.sort();
    Ok(paths)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
