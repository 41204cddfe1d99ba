//! References about the functions of a run's programs, for the page to show beside their calls. The
//! texts are others': of a course, of a manual.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::place::Place;

/// A text, which may lead somewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Text {
    text: String,
    /// A page that has more, relative to the timeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<String>,
}

/// The references about a function.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Reference {
    /// Its source, or the end of the source's path.
    file: String,
    /// Its name without those of its modules.
    function: String,
    texts: Vec<Text>,
}

/// Texts about functions.
#[derive(Clone, Debug, Default)]
pub struct References(Vec<Reference>);

impl References {
    /// Those of a JSON text: an array of objects with `file` (the end of its path is enough), `function`, and
    /// `texts`, each an object with `text` and maybe `link`, an address relative to the page.
    ///
    /// # Errors
    /// Parses them. An error tells what is wrong with the text, such as a link that is not relative.
    pub fn parse(json: &str) -> Result<Self, String> {
        let all: Vec<Reference> = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let links = all.iter().flat_map(|one| &one.texts).filter_map(|text| text.link.as_deref());
        // `javascript:` would be one.
        match links.into_iter().find(|link| link.contains(':')) {
            Some(link) => Err(format!("the link {link:?} is not relative to the page")),
            None => Ok(Self(all)),
        }
    }

    /// The number of what there is about the function of a place.
    pub(super) fn of(&self, place: &Place) -> Option<usize> {
        let (file, function) = (place.file.as_deref()?, place.function_name()?);
        let is_it =
            |one: &Reference| one.function == function && Path::new(file).ends_with(&one.file);
        self.0.iter().position(is_it)
    }

    /// The texts of a number.
    pub(super) fn texts(&self, number: usize) -> &[Text] {
        &self.0[number].texts
    }
}

/// The manual page of a call in section 3, if rdma-core has one. Of an inline function what it calls is seen.
pub(super) fn manual_page(call: &str) -> Option<String> {
    let name = match call.strip_prefix("ibv_cmd_") {
        Some(rest) => format!("ibv_{rest}"),
        None => call.to_owned(),
    };
    let is_known = name.starts_with("ibv_") || name.starts_with("rdma_");
    (is_known && !WITHOUT_PAGE.contains(&name.as_str())).then(|| format!("{name}(3)"))
}

/// Functions of the libraries of which rdma-core has no manual page.
const WITHOUT_PAGE: [&str; 9] = [
    "ibv_dofork_range",
    "ibv_dontfork_range",
    "ibv_get_sysfs_path",
    "ibv_qp_to_qp_ex",
    "ibv_reg_mr_iova",
    "ibv_reg_mr_iova2",
    "ibv_wc_status_str",
    "rdma_create_qp_ex",
    "rdma_create_srq_ex",
];

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r##"[{"file":"a/src/b.rs","function":"our_call","texts":[{"text":"In C","link":"../c.md#d"}]}]"##;

    #[test]
    fn a_function_is_known_by_its_name_and_the_end_of_its_path() {
        let references = References::parse(JSON).unwrap();
        let place = |file: &str, function: &str| Place {
            file: Some(file.into()),
            function: Some(function.into()),
            ..Place::default()
        };
        for (file, function, number) in [
            ("a/src/b.rs", "a::b::our_call", Some(0)),
            ("/x/a/src/b.rs", "our_call", Some(0)),
            ("a/src/b.rs", "a::b::our_call::{{closure}}", Some(0)),
            ("aa/src/b.rs", "a::b::our_call", None),
            ("a/src/b.rs", "a::b::other", None),
        ] {
            assert_eq!(references.of(&place(file, function)), number, "{file} {function}");
        }
        assert_eq!(references.of(&Place::default()), None);
        assert_eq!(references.texts(0)[0].text, "In C");
    }

    #[test]
    fn links_are_relative() {
        let error =
            References::parse(&JSON.replace("../c.md#d", "javascript:alert(1)")).unwrap_err();
        assert!(error.contains("javascript:alert(1)"), "{error}");
        assert!(References::parse("{").is_err());
    }

    #[test]
    fn a_call_has_the_manual_page_of_what_the_program_calls() {
        assert_eq!(manual_page("rdma_create_qp").as_deref(), Some("rdma_create_qp(3)"));
        assert_eq!(manual_page("ibv_cmd_req_notify_cq").as_deref(), Some("ibv_req_notify_cq(3)"));
        assert_eq!(manual_page("ibv_wc_status_str"), None);
        assert_eq!(manual_page("poll"), None);
    }
}
