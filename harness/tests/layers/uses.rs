//! Uses of a crate's files by its other files.
//!
//! - A path in code, in a `use` or a macro's arguments is a use of the file that has the item at its end. An
//!   item that is imported or exported again on the way is used where it is defined; a `pub use` by itself,
//!   like `mod`, is no use.
//! - A method that is called on `self`, on a parameter, or on a field of one of these, and a function of a
//!   type that a path names, is a use of the file that implements it. Types are those that are declared;
//!   what a value's type is otherwise, is not inferred.
//! - Code for tests does not count.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, FnArg, ImplItem, Item, Member, Pat, Token, TraitItem, Type};

use super::sources::{Def, ModuleId, Sources, attributes, inner_attributes, is_for_tests};

/// The uses of a crate's files: user and used, with what is named there.
pub type Uses = BTreeMap<(String, String), BTreeSet<String>>;

/// Methods and fields of a crate's types, as they are declared.
#[derive(Default)]
struct Types {
    /// The modules that implement a type's own method, or declare a trait's.
    methods: BTreeMap<(Def, String), BTreeSet<ModuleId>>,
    /// The modules that implement a trait's method for a type; its own one of this name comes first.
    of_traits: BTreeMap<(Def, String), BTreeSet<ModuleId>>,
    fields: BTreeMap<(Def, String), Def>,
}

/// Finds the uses of a crate's files.
pub fn uses(sources: &Sources) -> Uses {
    let types = types(sources);
    let mut uses = Uses::new();
    for (module, content) in sources.modules.iter().enumerate() {
        let mut reader = Reader {
            sources,
            types: &types,
            module,
            this: None,
            parameters: BTreeMap::new(),
            is_macro: false,
            uses: &mut uses,
        };
        for item in &content.items {
            reader.visit_item(item);
        }
    }
    uses
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// The type that a declaration names, behind references and pointers that own.
fn declared(sources: &Sources, module: ModuleId, ty: &Type) -> Option<Def> {
    match ty {
        Type::Reference(inner) => declared(sources, module, &inner.elem),
        Type::Paren(inner) => declared(sources, module, &inner.elem),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            if ["Arc", "Box", "Rc"].iter().any(|name| last.ident == name) {
                let syn::PathArguments::AngleBracketed(inner) = &last.arguments else {
                    return None;
                };
                return match inner.args.first()? {
                    syn::GenericArgument::Type(inner) => declared(sources, module, inner),
                    _ => None,
                };
            }
            named(sources, module, &path.path)
        }
        Type::TraitObject(bounds) => bounds.bounds.iter().find_map(|bound| match bound {
            syn::TypeParamBound::Trait(bound) => named(sources, module, &bound.path),
            _ => None,
        }),
        _ => None,
    }
}

fn named(sources: &Sources, module: ModuleId, path: &syn::Path) -> Option<Def> {
    let found = sources.find(module, &segments(path));
    found.items.into_iter().find(|(_, rest)| rest.is_empty()).map(|(def, _)| def)
}

fn types(sources: &Sources) -> Types {
    let mut types = Types::default();
    for (module, content) in sources.modules.iter().enumerate() {
        for item in &content.items {
            match item {
                Item::Impl(implementation) => {
                    let Some(def) = declared(sources, module, &implementation.self_ty) else {
                        continue;
                    };
                    let methods = match implementation.trait_ {
                        Some(_) => &mut types.of_traits,
                        None => &mut types.methods,
                    };
                    for inner in &implementation.items {
                        let ImplItem::Fn(method) = inner else { continue };
                        if !is_for_tests(&method.attrs) {
                            let key = (def.clone(), method.sig.ident.to_string());
                            methods.entry(key).or_default().insert(module);
                        }
                    }
                }
                Item::Trait(item) => {
                    let def = Def { module, name: item.ident.to_string() };
                    for inner in &item.items {
                        let TraitItem::Fn(method) = inner else { continue };
                        let key = (def.clone(), method.sig.ident.to_string());
                        types.methods.entry(key).or_default().insert(module);
                    }
                }
                Item::Struct(item) => {
                    let def = Def { module, name: item.ident.to_string() };
                    for (index, field) in item.fields.iter().enumerate() {
                        let name =
                            field.ident.as_ref().map_or(index.to_string(), |it| it.to_string());
                        if let Some(ty) = declared(sources, module, &field.ty) {
                            types.fields.insert((def.clone(), name), ty);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    types
}

/// Reads a module's code.
struct Reader<'s> {
    sources: &'s Sources,
    types: &'s Types,
    module: ModuleId,
    /// Type of `self` here.
    this: Option<Def>,
    /// The parameters of the function that is read, with their types.
    parameters: BTreeMap<String, Def>,
    /// Whether a macro's definition is read.
    is_macro: bool,
    uses: &'s mut Uses,
}

impl Reader<'_> {
    /// A module is used here for something of it.
    fn note(&mut self, used: ModuleId, what: String) {
        let (user, used) = (self.sources.file(self.module), self.sources.file(used));
        if user != used {
            self.uses.entry((user.into(), used.into())).or_default().insert(what);
        }
    }

    fn method(&mut self, of: &Def, name: &str) {
        let key = (of.clone(), name.to_string());
        let own = self.types.methods.get(&key);
        for module in own.or_else(|| self.types.of_traits.get(&key)).into_iter().flatten() {
            self.note(*module, format!("{}::{name}", of.name));
        }
    }

    fn path(&mut self, path: &[String]) {
        if let ([first, name, ..], Some(this)) = (path, self.this.clone()) {
            if first == "Self" {
                return self.method(&this, name);
            }
        }
        let found = self.sources.find(self.module, path);
        let is_found = found.is_outside || !found.modules.is_empty() || !found.items.is_empty();
        let is_own = path.len() > 1 && ["crate", "self", "super"].contains(&path[0].as_str());
        // Paths in a macro's definition are those of what it makes.
        if is_own && !self.is_macro {
            let file = self.sources.file(self.module);
            assert!(is_found, "{file}: {} is not found", path.join("::"));
        }
        for (def, rest) in found.items {
            self.note(def.module, def.name.clone());
            if let [method, ..] = rest.as_slice() {
                self.method(&def, method);
            }
        }
    }

    fn type_of(&self, value: &Expr) -> Option<Def> {
        match value {
            Expr::Path(path) if path.path.is_ident("self") => self.this.clone(),
            Expr::Path(path) => self.parameters.get(&path.path.get_ident()?.to_string()).cloned(),
            Expr::Field(field) => {
                let base = self.type_of(&field.base)?;
                let name = match &field.member {
                    Member::Named(name) => name.to_string(),
                    Member::Unnamed(index) => index.index.to_string(),
                };
                self.types.fields.get(&(base, name)).cloned()
            }
            Expr::Reference(inner) => self.type_of(&inner.expr),
            Expr::Paren(inner) => self.type_of(&inner.expr),
            _ => None,
        }
    }

    /// The paths among a macro's tokens, and its calls of methods of `self`, where they are no
    /// expressions between commas.
    fn tokens(&mut self, tokens: TokenStream) {
        let expressions = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens.clone());
        if let Ok(expressions) = expressions {
            return expressions.iter().for_each(|expression| self.visit_expr(expression));
        }
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(tree) = trees.get(at) {
            at += 1;
            match tree {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let before = at.checked_sub(2).and_then(|before| trees.get(before));
                    let mut path = vec![first.to_string()];
                    while let Some(name) = behind_colons(&trees[at..]) {
                        path.push(name);
                        at += 3;
                    }
                    // A field, or a fragment of a macro's own.
                    let is_fragment = is_sign(before, '$') && path[0] != "crate";
                    if path == ["self"] {
                        self.token_method(&trees[at..]);
                    } else if !is_sign(before, '.') && !is_fragment {
                        self.path(&path);
                    }
                }
                _ => {}
            }
        }
    }

    /// A name behind `self` may be a call of a method.
    fn token_method(&mut self, behind: &[TokenTree]) {
        if let ([dot, TokenTree::Ident(name), TokenTree::Group(_), ..], Some(this)) =
            (behind, self.this.clone())
        {
            if is_sign(Some(dot), '.') {
                self.method(&this, &name.to_string());
            }
        }
    }

    /// Reads a function, whose parameters are known in it.
    fn function(&mut self, signature: &syn::Signature, read: impl FnOnce(&mut Self)) {
        let mut parameters = BTreeMap::new();
        for argument in &signature.inputs {
            let FnArg::Typed(argument) = argument else { continue };
            let Pat::Ident(name) = &*argument.pat else { continue };
            if let Some(def) = declared(self.sources, self.module, &argument.ty) {
                parameters.insert(name.ident.to_string(), def);
            }
        }
        let outer = std::mem::replace(&mut self.parameters, parameters);
        read(self);
        self.parameters = outer;
    }

    /// Reads what is about a type.
    fn about(&mut self, this: Option<Def>, read: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.this, this);
        read(self);
        self.this = outer;
    }
}

fn is_sign(tree: Option<&TokenTree>, sign: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// The name behind two colons.
fn behind_colons(trees: &[TokenTree]) -> Option<String> {
    match trees {
        [first, second, TokenTree::Ident(name), ..]
            if is_sign(Some(first), ':') && is_sign(Some(second), ':') =>
        {
            Some(name.to_string())
        }
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !is_for_tests(inner_attributes(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let this = declared(self.sources, self.module, &item.self_ty);
        self.about(this, |reader| visit::visit_item_impl(reader, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let this = Def { module: self.module, name: item.ident.to_string() };
        self.about(Some(this), |reader| visit::visit_item_trait(reader, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, |reader| visit::visit_item_fn(reader, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, |reader| visit::visit_impl_item_fn(reader, item));
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if matches!(item.vis, syn::Visibility::Inherited) {
            for path in super::sources::imported(&item.tree) {
                self.path(&path);
            }
        }
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.path(&segments(path));
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if let Some(of) = self.type_of(&call.receiver) {
            self.method(&of, &call.method.to_string());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        self.is_macro = item.ident.is_some();
        visit::visit_item_macro(self, item);
        self.is_macro = false;
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let path = segments(&call.path);
        self.path(&path);
        // Without a path it may be one that stands before a module's declaration.
        if let [name] = path.as_slice() {
            if self.sources.find(self.module, &path).items.is_empty() {
                for module in self.sources.macros(name) {
                    self.note(*module, format!("{name}!"));
                }
            }
        }
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }
}
