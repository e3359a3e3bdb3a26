//! What is found, and in which order.

use outrigger_search::{Fusion, Index, Ranker, Ranking, ToolKey};
use serde_json::json;

use crate::{Document, index, names, tool, with_schema};

fn office() -> Vec<Document> {
    vec![
        tool("files", "read_file", "Reads a text file from the disk."),
        tool(
            "files",
            "read_multiple_files",
            "Reads several files at once.",
        ),
        tool(
            "files",
            "searchFiles",
            "Finds files whose names match a pattern.",
        ),
        tool(
            "web",
            "fetch",
            "Downloads a page and gives it as text, like read_file for the web.",
        ),
        tool("clock", "getCurrentTime", "Tells the time in a time zone."),
    ]
}

#[test]
fn the_name_itself_comes_first_however_it_is_written() {
    let index = index(office());
    let view = index.view(|_, _| true);
    for query in [
        "read_file",
        "readFile",
        "read file",
        "READ-FILE",
        "files/read_file",
        "files read file",
    ] {
        assert_eq!(names(&view, query)[0], "read_file", "{query}");
    }
    assert_eq!(
        names(&view, "read")[..2],
        ["read_file", "read_multiple_files"]
    );
    assert_eq!(names(&view, "getcur")[0], "getCurrentTime");
}

#[test]
fn parameters_and_their_values_are_found_and_nested_ones_too() {
    let schema = json!({
        "type": "object",
        "properties": {
            "ticket": {
                "type": "object",
                "properties": {"severity": {"description": "how bad the outage is", "enum": ["critical", "minor"]}}
            }
        }
    });
    let index = index(vec![
        with_schema(tool("desk", "create", "Makes one."), &schema),
        tool("desk", "remove", "Removes one."),
    ]);
    let view = index.view(|_, _| true);
    for query in ["severity", "a bad outage", "critical"] {
        assert_eq!(names(&view, query), ["create"], "{query}");
    }
}

#[test]
fn endings_accents_and_width_do_not_matter() {
    let index = index(vec![
        tool("a", "one", "Converts café menus between cities."),
        tool("a", "two", "Plans journeys."),
    ]);
    let view = index.view(|_, _| true);
    for query in ["converting", "cafe", "city", "ｃａｆé"] {
        assert_eq!(names(&view, query), ["one"], "{query}");
    }
    assert_eq!(names(&view, "planned journey"), ["two"]);
}

#[test]
fn two_words_of_a_query_are_found_where_they_are_written_as_one() {
    let index = index(vec![
        tool("mail", "settings", "Sets the zone of a mailbox."),
        tool(
            "mail",
            "last_time",
            "The last time that something was read.",
        ),
        tool("clock", "now", "Tells what time it is, in any timezone."),
        tool("disk", "list", "Lists a filesystem."),
    ]);
    let view = index.view(|_, _| true);
    assert_eq!(names(&view, "the time in a time zone")[0], "now");
    assert_eq!(names(&view, "all time zones")[0], "now");
    assert_eq!(names(&view, "Time Zone")[0], "now");
    assert_eq!(names(&view, "FILE SYSTEMS"), ["list"]);
    assert_eq!(names(&view, "file systems"), ["list"]);
    // A function word stands between.
    assert_eq!(names(&view, "file a system"), [""; 0]);
}

#[test]
fn text_without_spaces_is_found_by_parts_of_it() {
    let index = index(vec![
        tool("rail", "tickets", "查询两个车站之间的火车票余票信息"),
        tool("rail", "stations", "根据城市名称查询车站代码"),
        tool("sky", "forecast", "获取指定城市未来七天的天气预报"),
        tool("jp", "lookup", "駅の時刻表を検索します"),
        tool("kr", "lookup", "환율을 조회합니다"),
        tool("th", "rates", "ค้นหาอัตราแลกเปลี่ยน"),
    ]);
    let view = index.view(|_, _| true);
    for (query, server, name) in [
        ("我想买火车票", "rail", "tickets"),
        ("明天北京天气怎么样", "sky", "forecast"),
        ("车站代码", "rail", "stations"),
        ("時刻表を見たい", "jp", "lookup"),
        ("오늘 환율", "kr", "lookup"),
        ("อัตราแลกเปลี่ยนวันนี้", "th", "rates"),
    ] {
        let hit = view.search(query, 1)[0];
        assert_eq!((hit.server, hit.name), (server, name), "{query}");
    }
}

#[test]
fn a_tool_gains_by_the_company_it_keeps() {
    let index = index(vec![
        tool("mixed", "list", "Lists the entries of a calendar."),
        tool("mixed", "weigh", "Weighs a parcel."),
        tool("mixed", "paint", "Paints a wall."),
        tool("agenda", "list", "Lists the entries of a calendar."),
        tool("agenda", "add", "Adds an entry to a calendar."),
    ]);
    let view = index.view(|_, _| true);
    let first = view.search("all calendar entries", 1)[0];
    assert_eq!(first.server, "agenda");
}

#[test]
fn misspelt_names_get_suggestions_and_so_do_names_in_other_words() {
    let index = index(office());
    let view = index.view(|_, _| true);
    let suggested =
        |name: &str| -> Vec<_> { view.suggest(name, 2).iter().map(|hit| hit.name).collect() };
    assert_eq!(suggested("raed_file")[0], "read_file");
    assert_eq!(suggested("get_curent_time")[0], "getCurrentTime");
    assert_eq!(suggested("files_readfile")[0], "read_file");
    assert_eq!(suggested("download_page")[0], "fetch");
    assert!(suggested("zzzzzz").is_empty());
}

#[test]
fn a_replaced_server_leaves_nothing_behind() {
    let mut index = index(office());
    index.replace("web", [tool("web", "post", "Sends a form.")]);
    index.replace("clock", []);
    assert_eq!(index.servers().collect::<Vec<_>>(), ["files", "web"]);
    let view = index.view(|_, _| true);
    assert!(names(&view, "downloads time zone fetch").is_empty());
    assert_eq!(names(&view, "form"), ["post"]);
}

/// Ranks by the length of the name; knows nothing of words.
struct Shortest(Vec<ToolKey>);

impl Ranker for Shortest {
    fn replace(&mut self, server: &str, documents: &[Document]) {
        self.0.retain(|key| key.server != server);
        self.0.extend(documents.iter().map(|document| ToolKey {
            server: server.to_owned(),
            name: document.name.clone(),
        }));
        self.0.sort_by_key(|key| key.name.len());
    }

    fn rank(&self, _: &str, allowed: &dyn Fn(&str, &str) -> bool, limit: usize) -> Ranking {
        let seen = self.0.iter().filter(|key| allowed(&key.server, &key.name));
        Ranking {
            tools: seen.take(limit).cloned().collect(),
            named: 0,
        }
    }
}

#[test]
fn rankings_are_fused_by_rank_and_one_alone_stays_as_it_is() {
    let mut alone = Fusion::new(Index::default());
    let mut both = Fusion::new(Index::default()).with(Box::new(Shortest(Vec::new())), 1.0);
    for fusion in [&mut alone, &mut both] {
        fusion.replace("files", &office()[..3]);
        fusion.replace("web", &office()[3..4]);
    }
    let found = |fusion: &Fusion, query: &str, hidden: &str| -> Vec<String> {
        let allowed = |_: &str, name: &str| name != hidden;
        let ranking = fusion.rank(query, &allowed, 3);
        ranking.tools.into_iter().map(|key| key.name).collect()
    };
    let query = "read a text file";
    assert_eq!(found(&alone, query, "")[0], "read_file");
    // `fetch` is third by words and first by length: 1/4 + 1/2 is less than 1/2 + 1/3, and more than
    // what the second by words has.
    assert_eq!(found(&both, query, "")[..2], ["read_file", "fetch"]);
    assert!(!found(&both, query, "fetch").contains(&"fetch".to_owned()));
    // What is named stays first.
    assert_eq!(found(&both, "read_file", "")[0], "read_file");
    assert_eq!(both.rank("read", &|_, _| true, 3).named, 2);
}
