//! A crate's modules as its files declare them, tests apart, and what a path in one of them names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, ImplItem, Item, Meta, UseTree};

/// Index of a module in [`Sources::modules`].
pub type ModuleId = usize;

/// An item, by the module that defines it. A macro's definition is in scope by its name alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Def {
    pub module: ModuleId,
    pub name: String,
}

/// The end of a path in its crate.
#[derive(Default)]
pub struct Found {
    /// Items, each with what is left of the path behind it.
    pub items: Vec<(Def, Vec<String>)>,
    pub modules: Vec<ModuleId>,
    /// Whether it leads to what another crate has.
    pub is_outside: bool,
}

/// A name brought in by `use`; without a name it is all of a module's.
struct Import {
    name: Option<String>,
    path: Vec<String>,
}

pub struct Module {
    pub file: PathBuf,
    parent: Option<ModuleId>,
    children: BTreeMap<String, ModuleId>,
    names: BTreeSet<String>,
    imports: Vec<Import>,
    calls_macros: bool,
    pub items: Vec<Item>,
}

/// The modules of a crate; the first one is its root.
pub struct Sources {
    folder: PathBuf,
    pub modules: Vec<Module>,
    /// Where macros of a name are defined.
    macros: BTreeMap<String, Vec<ModuleId>>,
}

/// Whether an item is for tests alone.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let words = words(list.tokens.clone());
            let is_not = words.iter().any(|word| word == "not");
            let names = ["test", "fuzzing", "doctest"];
            !is_not && names.iter().any(|name| words.iter().any(|word| word == name))
        }
        _ => false,
    };
    attributes.iter().any(is_test)
}

/// The identifiers among some tokens, in order.
pub fn words(tokens: TokenStream) -> Vec<String> {
    let mut words = Vec::new();
    for tree in tokens {
        match tree {
            TokenTree::Ident(ident) => words.push(ident.to_string()),
            TokenTree::Group(group) => words.extend(self::words(group.stream())),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    words
}

/// An item's attributes.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The attributes of an item of an implementation.
pub fn inner_attributes(item: &ImplItem) -> &[Attribute] {
    match item {
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Macro(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        _ => &[],
    }
}

/// The names that an item defines in its module.
fn names(item: &Item) -> Vec<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => {
            let name = item.ident.iter().map(ToString::to_string);
            return name.chain(made_by(item.mac.tokens.clone())).collect();
        }
        Item::ForeignMod(item) => {
            let names = item.items.iter().filter_map(|item| match item {
                syn::ForeignItem::Fn(item) => Some(item.sig.ident.to_string()),
                syn::ForeignItem::Static(item) => Some(item.ident.to_string()),
                _ => None,
            });
            return names.collect();
        }
        _ => return Vec::new(),
    };
    vec![name.to_string()]
}

/// Names that a macro defines, or is given to define, by the keywords before them (`bitflags!`,
/// `thread_local!`).
fn made_by(tokens: TokenStream) -> Vec<String> {
    const KEYWORDS: [&str; 8] =
        ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];
    let mut names = Vec::new();
    let mut is_next = false;
    for tree in tokens {
        match tree {
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                if is_next {
                    names.push(word.clone());
                }
                is_next = KEYWORDS.contains(&word.as_str());
            }
            TokenTree::Group(group) => {
                names.extend(made_by(group.stream()));
                is_next = false;
            }
            _ => is_next = false,
        }
    }
    names
}

/// The names of a `use`, each with its path.
fn imports(tree: &UseTree, before: &[String]) -> Vec<Import> {
    let with = |name: &syn::Ident| -> Vec<String> {
        let name = name.to_string();
        if name == "self" { before.to_vec() } else { [before, &[name]].concat() }
    };
    match tree {
        UseTree::Path(inner) => imports(&inner.tree, &with(&inner.ident)),
        UseTree::Group(group) => {
            group.items.iter().flat_map(|tree| imports(tree, before)).collect()
        }
        UseTree::Glob(_) => vec![Import { name: None, path: before.to_vec() }],
        UseTree::Name(inner) => {
            let path = with(&inner.ident);
            vec![Import { name: path.last().cloned(), path }]
        }
        UseTree::Rename(inner) => {
            let path = with(&inner.ident);
            vec![Import { name: Some(inner.rename.to_string()), path }]
        }
    }
}

/// The paths of a `use`, but those of all that a module has.
pub fn imported(tree: &UseTree) -> Vec<Vec<String>> {
    let named = imports(tree, &[]).into_iter().filter(|import| import.name.is_some());
    named.map(|import| import.path).collect()
}

impl Sources {
    /// Reads a crate from its root's file, which is in its folder of sources.
    pub fn read(folder: &Path) -> Self {
        let root = folder.join("lib.rs");
        let mut sources =
            Self { folder: folder.into(), modules: Vec::new(), macros: BTreeMap::new() };
        sources.read_file(&root, None, folder);
        sources
    }

    /// A module's file, as in the folder of sources.
    pub fn file(&self, module: ModuleId) -> &str {
        self.modules[module].file.strip_prefix(&self.folder).unwrap().to_str().unwrap()
    }

    fn read_file(&mut self, file: &Path, parent: Option<ModuleId>, folder: &Path) -> ModuleId {
        let text = fs::read_to_string(file).unwrap();
        let parsed = syn::parse_file(&text);
        let items = parsed.unwrap_or_else(|error| panic!("{}: {error}", file.display())).items;
        self.add(file, parent, folder, items)
    }

    /// Adds a module whose children's files are in a folder.
    fn add(
        &mut self,
        file: &Path,
        parent: Option<ModuleId>,
        folder: &Path,
        items: Vec<Item>,
    ) -> ModuleId {
        let id = self.modules.len();
        let module = Module {
            file: file.into(),
            parent,
            children: BTreeMap::new(),
            names: BTreeSet::new(),
            imports: Vec::new(),
            calls_macros: false,
            items: Vec::new(),
        };
        self.modules.push(module);
        for item in items.into_iter().filter(|item| !is_for_tests(attributes(item))) {
            let module = &mut self.modules[id];
            match item {
                Item::Mod(inner) => {
                    let name = inner.ident.to_string();
                    let inner_folder = folder.join(&name);
                    let child = match inner.content {
                        Some((_, items)) => self.add(file, Some(id), &inner_folder, items),
                        None => {
                            let alone = folder.join(format!("{name}.rs"));
                            let file =
                                if alone.exists() { alone } else { inner_folder.join("mod.rs") };
                            self.read_file(&file, Some(id), &inner_folder)
                        }
                    };
                    self.modules[id].children.insert(name, child);
                }
                Item::Use(ref used) => {
                    module.imports.extend(imports(&used.tree, &[]));
                    module.items.push(item);
                }
                item => {
                    if let Item::Macro(item) = &item {
                        match &item.ident {
                            Some(name) => self.macros.entry(name.to_string()).or_default().push(id),
                            None => module.calls_macros = true,
                        }
                    }
                    module.names.extend(names(&item));
                    module.items.push(item);
                }
            }
        }
        id
    }

    /// The item, module or import to which a path in a module leads.
    pub fn find(&self, module: ModuleId, path: &[String]) -> Found {
        let mut found = Found::default();
        found.modules = self.follow(module, path, &mut BTreeSet::new(), &mut found);
        found
    }

    /// Where macros of a name are defined.
    pub fn macros(&self, name: &str) -> &[ModuleId] {
        self.macros.get(name).map_or(&[], Vec::as_slice)
    }

    /// Follows a path; gives the modules that it names, and adds all else. An unknown name in a module
    /// that calls macros is of what these make.
    fn follow(
        &self,
        module: ModuleId,
        path: &[String],
        seen: &mut BTreeSet<(ModuleId, String)>,
        found: &mut Found,
    ) -> Vec<ModuleId> {
        let mut inner = Found::default();
        let modules = self.walk(module, path, seen, &mut inner);
        let is_lost = modules.is_empty() && inner.items.is_empty() && !inner.is_outside;
        for at in (1..path.len()).rev().filter(|_| is_lost) {
            let made_in = self.walk(module, &path[..at], seen, &mut Found::default());
            if let Some(module) = made_in.into_iter().find(|id| self.modules[*id].calls_macros) {
                inner.items.push((Def { module, name: path[at].clone() }, path[at + 1..].to_vec()));
                break;
            }
        }
        found.items.append(&mut inner.items);
        found.is_outside |= inner.is_outside;
        modules
    }

    fn walk(
        &self,
        module: ModuleId,
        path: &[String],
        seen: &mut BTreeSet<(ModuleId, String)>,
        found: &mut Found,
    ) -> Vec<ModuleId> {
        let [first, rest @ ..] = path else { return vec![module] };
        let next = match first.as_str() {
            "crate" => vec![0],
            "self" => vec![module],
            "super" => self.modules[module].parent.into_iter().collect(),
            name => {
                let mut inner = Found::default();
                let modules = self.look_up(module, name, seen, &mut inner);
                found.is_outside |= inner.is_outside;
                found.items.extend(inner.items.into_iter().map(|(def, mut behind)| {
                    behind.extend_from_slice(rest);
                    (def, behind)
                }));
                modules
            }
        };
        next.into_iter().flat_map(|module| self.walk(module, rest, seen, found)).collect()
    }

    /// The modules that a name means in a module; adds all else that it means there.
    fn look_up(
        &self,
        id: ModuleId,
        name: &str,
        seen: &mut BTreeSet<(ModuleId, String)>,
        found: &mut Found,
    ) -> Vec<ModuleId> {
        let this = (id, name.to_string());
        if !seen.insert(this.clone()) {
            return Vec::new();
        }
        let module = &self.modules[id];
        let mut modules: Vec<ModuleId> = module.children.get(name).copied().into_iter().collect();
        if module.names.contains(name) {
            found.items.push((Def { module: id, name: name.to_string() }, Vec::new()));
        }
        for import in &module.imports {
            let mut inner = Found::default();
            match &import.name {
                Some(imported) if imported == name => {
                    let led = self.follow(id, &import.path, seen, &mut inner);
                    found.is_outside |= led.is_empty() && inner.items.is_empty();
                    found.items.append(&mut inner.items);
                    modules.extend(led);
                }
                Some(_) => {}
                None => {
                    for all in self.follow(id, &import.path, seen, &mut inner) {
                        modules.extend(self.look_up(all, name, seen, found));
                    }
                }
            }
        }
        seen.remove(&this);
        modules
    }
}
