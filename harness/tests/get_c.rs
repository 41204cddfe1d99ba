//! `compare --get-c`, from a mirror that is made here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::Error;
use harness::compare::get_c::{Edit, Program, Recipe, Repository, Sources, get_c};

use crate::scripts::Folder;

/// An empty folder.
fn empty(name: &str) -> Folder {
    let folder = Folder(std::env::temp_dir().join(format!("{name}-{}", std::process::id())));
    fs::create_dir(&folder.0).unwrap();
    folder
}

/// Runs git in a folder.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=a", "-c", "user.email=b"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A mirror with one repository: an example with a line that does not compile, an object of long ago, and a change behind
/// the commit that is wanted. The mirror, and that commit.
fn mirror(folder: &Path) -> (PathBuf, String) {
    let repository = folder.join("mirror/owner/suite");
    let example = repository.join("ping");
    fs::create_dir_all(&example).unwrap();
    git(&repository, &["init", "--quiet"]);
    let client =
        "int shared(void);\nint main(void)\n{\n\tno_such_member = 0;\n\treturn shared();\n}\n";
    fs::write(example.join("client.c"), client).unwrap();
    fs::write(example.join("server.c"), "int main(void)\n{\n\treturn 8;\n}\n").unwrap();
    fs::write(example.join("shared.c"), "int shared(void)\n{\n\treturn 7;\n}\n").unwrap();
    fs::write(example.join("shared.o"), "of another machine").unwrap();
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "first"]);
    let commit = git(&repository, &["rev-parse", "HEAD"]);
    fs::write(example.join("shared.c"), "int shared(void)\n{\n\treturn 9;\n}\n").unwrap();
    git(&repository, &["commit", "--quiet", "-a", "-m", "second"]);
    (folder.join("mirror"), commit)
}

fn recipe(commit: &str) -> Recipe {
    Recipe {
        repositories: vec![Repository {
            name: "owner/suite".to_owned(),
            commit: commit.to_owned(),
            takes: vec![("ping".to_owned(), "ping".to_owned())],
        }],
        edits: vec![Edit {
            file: "ping/client.c".to_owned(),
            find: r"(?m)^.*no_such_member.*\n",
            replace: "",
            why: "there is no such member",
        }],
        programs: vec![Program {
            path: "ping/client".to_owned(),
            sources: Sources::AllBut(&["server.c"]),
            flags: &[],
        }],
    }
}

/// Its output, and whether all was built.
fn gets(recipe: &Recipe, from: &Path, dir: &Path) -> Result<(String, bool), Error> {
    let mut said = Vec::new();
    let from = format!("file://{}", from.display());
    let built = get_c(recipe, &from, dir, &mut said)?;
    Ok((String::from_utf8(said).unwrap(), built))
}

/// The entries of a folder, by name.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_commit_is_fetched_changed_and_built() {
    let folder = empty("get-c");
    let (mirror, commit) = mirror(&folder.0);
    let dir = folder.0.join("c");
    let (said, built) = gets(&recipe(&commit), &mirror, &dir).unwrap();
    assert!(built, "{said}");
    for line in
        ["fetching owner/suite at ", "changed ping/client.c: there is no", "1 of 1 programs"]
    {
        assert!(said.contains(line), "{said}");
    }
    // The commit's 7, not the 9 of later.
    let status = Command::new(dir.join("ping/client")).status().unwrap();
    assert_eq!(status.code(), Some(7));
    assert_eq!(names(&dir.join("ping")), ["client", "client.c", "server.c", "shared.c"]);
    assert_eq!(names(&folder.0), ["c", "mirror"]);
    // A folder that is there stays.
    let refused = gets(&recipe(&commit), &mirror, &dir).unwrap_err().to_string();
    assert!(refused.contains("is there already"), "{refused}");
}

#[test]
fn what_cannot_be_had_is_said_and_nothing_is_left() {
    let folder = empty("get-c-refused");
    let (mirror, commit) = mirror(&folder.0);
    let dir = folder.0.join("c");
    let other = "0".repeat(40);
    let mut unchanged = recipe(&commit);
    unchanged.edits[0].find = "nowhere";
    for (recipe, from, said) in [
        (recipe(&other), mirror.clone(), "has no commit 0000"),
        (recipe(&commit), folder.0.join("elsewhere"), "cannot fetch file:///"),
        (unchanged, mirror.clone(), "finds nothing to change: there is no such member"),
    ] {
        let refused = gets(&recipe, &from, &dir).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
        assert_eq!(names(&folder.0), ["mirror"]);
    }
    // A program that does not compile is no reason to have none.
    let mut wrong = recipe(&commit);
    wrong.edits.clear();
    let (said, built) = gets(&wrong, &mirror, &dir).unwrap();
    assert!(
        !built && said.contains("not built: ping/client\n") && said.contains("no_such_member"),
        "{said}"
    );
    assert_eq!(names(&dir), ["ping"]);
}

/// The copies that are named: each edit is of a file that is taken, each program of a folder that is, and each place is one in
/// which `compare` looks.
#[test]
fn the_recipe_is_one() {
    let recipe = Recipe::published();
    let takes: Vec<&str> = recipe
        .repositories
        .iter()
        .flat_map(|repository| repository.takes.iter().map(|(_, to)| to.as_str()))
        .collect();
    for repository in &recipe.repositories {
        assert_eq!(repository.commit.len(), 40, "{}", repository.name);
    }
    for edit in &recipe.edits {
        let folder = edit.file.split('/').next().unwrap();
        assert!(takes.contains(&folder), "{}", edit.file);
        regex::Regex::new(edit.find).unwrap();
    }
    let places: Vec<String> = harness::examples::EXAMPLES
        .iter()
        .filter(|example| example.original)
        .flat_map(|example| {
            let sides = example.program_sides().iter();
            sides.map(|side| {
                let mut places = example.places(*side);
                let found =
                    |place: &String| recipe.programs.iter().any(|program| program.path == *place);
                places.find(found).unwrap_or_else(|| panic!("{}: no program", example.name))
            })
        })
        .collect();
    for program in &recipe.programs {
        assert!(places.contains(&program.path), "{} is looked for nowhere", program.path);
    }
}
