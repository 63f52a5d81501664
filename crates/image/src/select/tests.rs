use super::{Pattern, edit_distance, glob, key_of, split_list};

#[test]
fn globs_match_whole_names() {
    for (pattern, text, expected) in [
        ("main", "main", true),
        ("main", "main2", false),
        ("ma*", "main", true),
        ("*", "", true),
        ("a*b*c", "axxbyybzzc", true),
        ("a*b*c", "axxbyybzz", false),
        ("?ain", "main", true),
        ("?ain", "ain", false),
        ("f(char*)", "f(char*)", true),
    ] {
        assert_eq!(glob(pattern, text), expected, "{pattern} on {text}");
    }
}

#[test]
fn a_pattern_knows_its_module() {
    let parts = |text| {
        let pattern = Pattern::new(text);
        (pattern.module, pattern.name)
    };
    let plain = |name: &str| (None, name.to_owned());
    assert_eq!(
        parts("libc.so.6!mal*"),
        (Some("libc.so.6".into()), "mal*".into())
    );
    assert_eq!(parts("A::operator!="), plain("A::operator!="));
    assert_eq!(parts("A::operator!"), plain("A::operator!"));
}

#[test]
fn a_name_is_demangled_only_when_it_can_match() {
    assert_eq!(key_of("ns::outer*"), Some("outer".into()));
    assert_eq!(key_of("std::string::*"), None);
    assert_eq!(key_of("operator new"), None);
    assert!(Pattern::new("ns::f").matches_name("_ZN2ns1fEi"));
    assert!(Pattern::new("ns::f(int)").matches_name("_ZN2ns1fEi"));
    assert!(Pattern::new("_ZN2ns1fEi").matches_name("_ZN2ns1fEi"));
    assert!(!Pattern::new("ns::g").matches_name("_ZN2ns1fEi"));
}

#[test]
fn distances_beyond_the_limit_are_not_reported() {
    assert_eq!(edit_distance("mian", "main", 2), Some(2));
    assert_eq!(edit_distance("main", "main", 0), Some(0));
    assert_eq!(edit_distance("main", "malloc", 3), None);
}

#[test]
fn commas_inside_parameters_do_not_split() {
    assert_eq!(
        split_list("f(int, char),g , h<a,b>"),
        ["f(int, char)", "g", "h<a,b>"]
    );
    assert_eq!(split_list(""), Vec::<&str>::new());
}
