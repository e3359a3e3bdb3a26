//! The declarations as a model pays for them, and results against their own schemas.

use std::fmt::Write;

use outrigger_servers::BuiltIn;
use serde_json::{Value, json};

use crate::client::{Client, request};

async fn tools(server: BuiltIn) -> Vec<Value> {
    let mut client = Client::legacy(server).await;
    let answer = client.ask(request(1, "tools/list", json!({}))).await;
    answer["result"]["tools"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_a_model_reads() {
    let mut declared = String::new();
    for server in BuiltIn::ALL.into_iter().chain([BuiltIn::Resources]) {
        writeln!(declared, "{server}: {}", server.description()).unwrap();
        for tool in tools(server).await {
            let (name, about) = (
                tool["name"].as_str().unwrap(),
                tool["description"].as_str().unwrap(),
            );
            writeln!(declared, "  {name}: {about}\n    {}", tool["inputSchema"]).unwrap();
        }
    }
    insta::assert_snapshot!(declared, @r#"
    time: the current time, days between dates, time zone conversion
      current_time: Today's date, weekday and time.
        {"type":"object","additionalProperties":false,"properties":{"timezone":{"type":"string","description":"IANA name, e.g. Europe/Berlin; default: local."}}}
      days_between: Counts days from start to end, negative when end comes first. For "days until X" give only end.
        {"type":"object","additionalProperties":false,"properties":{"end":{"type":"string","description":"YYYY-MM-DD"},"start":{"type":"string","description":"YYYY-MM-DD; default: today."}},"required":["end"]}
      convert_time: Converts a time of day between time zones, minding daylight saving.
        {"type":"object","additionalProperties":false,"properties":{"time":{"type":"string","description":"HH:MM, 24 hours."},"from_timezone":{"type":"string","description":"IANA name."},"to_timezone":{"type":"string","description":"IANA name."},"date":{"type":"string","description":"YYYY-MM-DD; default: today."}},"required":["time","from_timezone","to_timezone"]}
    echo: returns the text that it is given, for trying things out
      echo: Returns the given text unchanged.
        {"type":"object","additionalProperties":false,"properties":{"text":{"type":"string"}},"required":["text"]}
    workspace: lists, reads and searches the files of one folder, and no others
      list: Lists files and folders of the workspace.
        {"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","description":"Folder, relative to the workspace; default: all of it."},"depth":{"type":"integer","minimum":1,"description":"Levels of folders; default: 1.","maximum":20},"hidden":{"type":"boolean","description":"Also names that begin with a dot."}}}
      read: Reads a text file of the workspace, whole or a window of lines.
        {"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","description":"Relative to the workspace."},"offset":{"type":"integer","minimum":1,"description":"First line, from 1."},"limit":{"type":"integer","minimum":1,"description":"Number of lines; default: 2000."}},"required":["path"]}
      search: Finds lines that match a regular expression in the files of the workspace.
        {"type":"object","additionalProperties":false,"properties":{"pattern":{"type":"string","description":"Regular expression, matched line by line; (?i) ignores case."},"path":{"type":"string","description":"File or folder, relative to the workspace; default: all of it."},"glob":{"type":"string","description":"Only these files, e.g. *.rs or src/**/*.md."}},"required":["pattern"]}
    resources: lists and reads the resources of the other servers
      list_resources: Lists what a tool server has to read besides its tools.
        {"type":"object","additionalProperties":false,"properties":{"server":{"type":"string","description":"Default: tells which servers have any."}}}
      read_resource: Reads one resource of a tool server.
        {"type":"object","additionalProperties":false,"properties":{"server":{"type":"string"},"uri":{"type":"string","description":"Its address, as listed."}},"required":["server","uri"]}
    "#);
}

#[tokio::test]
async fn what_comes_back_is_declared_too() {
    let mut declared = String::new();
    for server in BuiltIn::ALL {
        for tool in tools(server).await {
            let (title, output) = (tool["title"].as_str().unwrap(), &tool["outputSchema"]);
            writeln!(declared, "{title}: {output}").unwrap();
        }
    }
    insta::assert_snapshot!(declared, @r#"
    Current time: {"type":"object","properties":{"time":{"type":"string","description":"ISO 8601 with offset."},"weekday":{"type":"string"},"timezone":{"type":"string"},"utc_offset":{"type":"string"}},"required":["time","weekday","timezone","utc_offset"]}
    Days between dates: {"type":"object","properties":{"days":{"type":"integer","description":"Negative when `end` is before `start`."},"start":{"type":"string"},"start_weekday":{"type":"string"},"end":{"type":"string"},"end_weekday":{"type":"string"}},"required":["days","start","start_weekday","end","end_weekday"]}
    Convert time: {"type":"object","properties":{"from":{"type":"object","properties":{"time":{"type":"string","description":"ISO 8601 with offset."},"weekday":{"type":"string"},"timezone":{"type":"string"},"utc_offset":{"type":"string"}},"required":["time","weekday","timezone","utc_offset"]},"to":{"type":"object","properties":{"time":{"type":"string","description":"ISO 8601 with offset."},"weekday":{"type":"string"},"timezone":{"type":"string"},"utc_offset":{"type":"string"}},"required":["time","weekday","timezone","utc_offset"]},"note":{"type":"string","description":"Set when daylight saving skips or repeats the given time."}},"required":["from","to"]}
    Echo: {"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}
    List files: {"type":"object","properties":{"path":{"type":"string"},"entries":{"type":"array","items":{"type":"object","properties":{"path":{"description":"Relative to the workspace.","type":"string"},"kind":{"type":"string","enum":["file","folder","link","other"]},"size":{"description":"In bytes, of files.","type":"integer","minimum":0}},"required":["path","kind"]}},"more":{"type":"integer","minimum":0,"description":"Entries that are not shown."},"hidden":{"type":"integer","minimum":0,"description":"Names with a dot in front that were passed over."},"unreadable":{"type":"integer","minimum":0,"description":"What could not be looked into."},"complete":{"type":"boolean","description":"False when the folder is too large to be seen whole; then `more` is a lower bound."}},"required":["path","entries","more","hidden","unreadable","complete"]}
    Read file: {"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"},"first_line":{"type":"integer","minimum":0,"description":"0 when the file is empty."},"last_line":{"type":"integer","minimum":0},"total_lines":{"type":"integer","minimum":0},"total_bytes":{"type":"integer","minimum":0}},"required":["path","text","first_line","last_line","total_lines","total_bytes"]}
    Search files: {"type":"object","properties":{"matches":{"type":"array","items":{"type":"object","properties":{"path":{"description":"Relative to the workspace.","type":"string"},"line":{"type":"integer","minimum":0},"text":{"type":"string"}},"required":["path","line","text"]}},"files_searched":{"type":"integer","minimum":0},"skipped_binary":{"type":"integer","minimum":0},"skipped_large":{"type":"integer","minimum":0,"description":"Over 2 MB."},"unreadable":{"type":"integer","minimum":0,"description":"What could not be looked into."},"complete":{"type":"boolean","description":"False when there may be more matches; `stopped` then says why."},"stopped":{"type":"string"}},"required":["matches","files_searched","skipped_binary","skipped_large","unreadable","complete"]}
    "#);
}

#[tokio::test]
async fn every_tool_is_complete_and_harmless() {
    for server in BuiltIn::ALL {
        for tool in tools(server).await {
            assert_eq!(
                tool["annotations"],
                json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true,
                    "openWorldHint": false})
            );
            assert_eq!(tool["inputSchema"]["type"], "object");
            assert_eq!(tool["inputSchema"]["additionalProperties"], json!(false));
            assert_eq!(tool["outputSchema"]["type"], "object");
            assert!(tool["description"].as_str().unwrap().len() < 150);
            assert!(!tool["title"].as_str().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn results_are_what_their_schema_says() {
    let calls = [
        (
            BuiltIn::Time,
            "current_time",
            json!({"timezone": "Asia/Tokyo"}),
        ),
        (BuiltIn::Time, "days_between", json!({"end": "2026-01-01"})),
        (
            BuiltIn::Time,
            "convert_time",
            json!({"time": "02:30", "from_timezone": "Europe/Berlin", "to_timezone": "UTC",
                "date": "2026-03-29"}),
        ),
        (BuiltIn::Echo, "echo", json!({"text": ""})),
        (BuiltIn::Workspace, "list", json!({"depth": 2})),
        (
            BuiltIn::Workspace,
            "read",
            json!({"path": "folder/file.txt"}),
        ),
        (BuiltIn::Workspace, "search", json!({"pattern": "l+"})),
    ];
    for (server, name, arguments) in calls {
        let mut client = Client::legacy(server).await;
        let folder = client.workspace.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("file.txt"), "hello\n").unwrap();
        let tool = tools(server)
            .await
            .into_iter()
            .find(|tool| tool["name"] == name)
            .unwrap();
        let input = jsonschema::validator_for(&tool["inputSchema"]).unwrap();
        let output = jsonschema::validator_for(&tool["outputSchema"]).unwrap();
        assert!(input.is_valid(&arguments), "{name}: {arguments}");
        let result = client.call(name, arguments).await;
        assert_eq!(result["isError"], json!(false), "{name}: {result}");
        let structured = &result["structuredContent"];
        let problems: Vec<String> = output
            .iter_errors(structured)
            .map(|error| error.to_string())
            .collect();
        assert!(problems.is_empty(), "{name}: {problems:?} in {structured}");
        assert_eq!(result["content"][0]["type"], "text");
    }
}
