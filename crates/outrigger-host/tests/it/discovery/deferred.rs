//! Tools that are left to the search of a model's provider: which they are, and when they are not.

use outrigger_host::discovery::{Audience, Exposure, ProviderSearch};

use crate::lab::{Lab, Plan};

const SEARCH: ProviderSearch = ProviderSearch {
    most_tools: 10_000,
    most_entries: 10_000,
    shows_groups: false,
};

async fn lab(settings: &str) -> Lab {
    Lab::new(Plan {
        user: format!("[discovery]\nmode = 'always'\n{settings}"),
        allow: vec!["*".to_owned()],
        ..Plan::default()
    })
    .await
}

fn shown(lab: &Lab, search: Result<ProviderSearch, String>) -> Exposure {
    lab.host.toolset().exposure_to(&Audience {
        search,
        ..Audience::new(100_000)
    })
}

fn deferred(exposure: &Exposure) -> Vec<String> {
    let groups = exposure.deferred.iter();
    let tools = groups.flat_map(|group| &group.tools);
    tools.map(|tool| tool.name.to_string()).collect()
}

fn inline(exposure: &Exposure) -> Vec<String> {
    exposure
        .tools
        .iter()
        .map(|tool| tool.name.to_string())
        .collect()
}

#[tokio::test]
async fn all_that_is_not_kept_is_deferred_where_it_is_asked_for() {
    let asked = lab("search = 'provider'").await;
    let exposure = shown(&asked, Ok(SEARCH));
    let all = asked.host.toolset();
    assert_eq!(deferred(&exposure).len(), all.tools().len());
    assert!(inline(&exposure).is_empty(), "{:?}", inline(&exposure));
    let index = exposure.index.clone().unwrap();
    assert!(
        index.contains("tool search finds them") && index.contains("`lab` ("),
        "{index}"
    );
    assert!(!index.contains("search_tools"), "{index}");
    let group = &exposure.deferred[0];
    assert_eq!(group.name, "mcp__lab");
    let about = group.about(&group.tools);
    assert!(about.starts_with("The server `lab`. Tools: "), "{about}");
    assert!(about.len() < 500, "{about}");
    // A model that sees the groups needs no index.
    let search = ProviderSearch {
        shows_groups: true,
        ..SEARCH
    };
    assert!(shown(&asked, Ok(search)).index.is_none());

    let not_asked = lab("").await;
    let exposure = shown(&not_asked, Ok(SEARCH));
    assert!(exposure.deferred.is_empty() && exposure.not_searched.is_none());
    assert_eq!(inline(&exposure)[0], "search_tools");
}

#[tokio::test]
async fn what_a_provider_cannot_take_is_found_by_the_host_and_the_reason_told() {
    let lab = lab("search = 'provider'").await;
    let tools = lab.host.toolset().tools().len();
    let none = shown(&lab, Err("it has none".to_owned()));
    assert_eq!(none.not_searched.as_deref(), Some("it has none"));
    assert_eq!(inline(&none)[0], "search_tools");
    assert!(none.deferred.is_empty() && none.index.is_some());

    let few = ProviderSearch {
        most_tools: tools - 1,
        ..SEARCH
    };
    let too_many = shown(&lab, Ok(few));
    assert_eq!(
        too_many.not_searched.unwrap(),
        format!(
            "it takes {} tools at the most, and there are {tools}",
            tools - 1
        )
    );
    assert!(too_many.deferred.is_empty());

    let short = ProviderSearch {
        most_entries: 2,
        ..SEARCH
    };
    let too_long = shown(&lab, Ok(short)).not_searched.unwrap();
    assert!(too_long.contains("2 entries at the most"), "{too_long}");
    let grouped = ProviderSearch {
        shows_groups: true,
        ..short
    };
    assert!(
        shown(&lab, Ok(grouped)).not_searched.is_none(),
        "one group and the search"
    );
}
