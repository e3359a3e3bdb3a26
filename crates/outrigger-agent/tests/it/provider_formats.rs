//! What each format writes and reads in its own way.

use outrigger_agent::provider::{ProviderKind, Secret, build};
use outrigger_model::{
    AssistantTurn, Message, ModelError, ModelErrorKind, Part, StopReason, ToolCall, Usage,
};
use outrigger_testkit::provider_server::Turn;
use serde_json::{Value, json};

use crate::provider_play::{
    NOWHERE, Seen, at, failed, finished, model, play, question, request, result, serve, spec, words,
};

/// One turn with reasoning, text and two calls, answered; the request that carried it all back.
async fn second_request(kind: ProviderKind) -> Value {
    let first = Turn::calls([
        ("mcp__time__current_time", json!({})),
        ("mcp__echo__echo", json!({ "n": 7 })),
    ]);
    let first = Turn {
        text: Some("Looking.".to_owned()),
        ..first.reasoning("Both, at once.")
    };
    let server = serve([first, Turn::text("done")]).await;
    let mut spec = spec(&server, kind);
    spec.sees_images = Some(true);
    let model = build(spec).unwrap();
    let turn = finished(&model, question()).await.turn;
    let image = Part::Image {
        media_type: "image/png".to_owned(),
        data: "AAAA".to_owned(),
    };
    let results = vec![
        result(&turn, 0, vec![Part::text("20:00"), image], false),
        result(&turn, 1, vec![Part::text("broken")], true),
    ];
    let mut messages = question().messages;
    messages.extend([Message::Assistant(turn), Message::ToolResults { results }]);
    finished(&model, request(messages)).await;
    server.requests().remove(1).body
}

#[tokio::test]
async fn chat_completions_carries_reasoning_and_says_what_it_cannot_show() {
    let body = second_request(ProviderKind::OpenAiChat).await;
    assert_eq!(
        at(&body, "/stream_options"),
        &json!({ "include_usage": true })
    );
    assert_eq!(
        at(&body, "/messages/2"),
        &json!({
            "role": "assistant",
            "content": "Looking.",
            "reasoning_content": "Both, at once.",
            "tool_calls": [
                { "id": "call_1_0", "type": "function",
                  "function": { "name": "mcp__time__current_time", "arguments": "{}" } },
                { "id": "call_1_1", "type": "function",
                  "function": { "name": "mcp__echo__echo", "arguments": "{\"n\":7}" } },
            ],
        })
    );
    assert_eq!(
        at(&body, "/messages/3/content"),
        "20:00\n[an image (image/png, 3 bytes) was left out: this API takes only text as a tool's result]"
    );
}

#[tokio::test]
async fn responses_gives_the_items_back_as_they_came() {
    let body = second_request(ProviderKind::OpenAiResponses).await;
    assert_eq!(
        (at(&body, "/store"), at(&body, "/instructions")),
        (&json!(false), &json!("Be brief."))
    );
    assert_eq!(
        at(&body, "/include"),
        &json!(["reasoning.encrypted_content"])
    );
    assert_eq!(
        at(&body, "/input/1"),
        &json!({ "id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2lnbmF0dXJl+1/=" })
    );
    assert_eq!(at(&body, "/input/2/phase"), "commentary");
    assert_eq!(at(&body, "/input/4/call_id"), "call_1_1");
    assert_eq!(
        at(&body, "/input/5"),
        &json!({ "type": "function_call_output", "call_id": "call_1_0", "output": [
            { "type": "input_text", "text": "20:00" },
            { "type": "input_image", "image_url": "data:image/png;base64,AAAA" },
        ] })
    );
    assert_eq!(at(&body, "/input/6/output"), "broken");
}

#[tokio::test]
async fn messages_keeps_thinking_in_place_and_marks_the_cache() {
    let body = second_request(ProviderKind::Anthropic).await;
    let breakpoint = json!({ "type": "ephemeral" });
    assert_eq!(at(&body, "/max_tokens"), &json!(8192));
    assert_eq!(at(&body, "/system/0/cache_control"), &breakpoint);
    assert_eq!(at(&body, "/tools/0/cache_control"), &Value::Null);
    assert_eq!(at(&body, "/tools/1/cache_control"), &breakpoint);
    assert_eq!(
        at(&body, "/messages/1/content"),
        &json!([
            { "type": "thinking", "thinking": "Both, at once.", "signature": "c2lnbmF0dXJl+1/=" },
            { "type": "text", "text": "Looking." },
            { "type": "tool_use", "id": "call_1_0", "name": "mcp__time__current_time", "input": {} },
            { "type": "tool_use", "id": "call_1_1", "name": "mcp__echo__echo", "input": { "n": 7 } },
        ])
    );
    assert_eq!(
        at(&body, "/messages/2"),
        &json!({ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "call_1_0", "content": [
                { "type": "text", "text": "20:00" },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } },
            ] },
            { "type": "tool_result", "tool_use_id": "call_1_1", "is_error": true,
              "content": [{ "type": "text", "text": "broken" }], "cache_control": breakpoint },
        ] })
    );
}

#[tokio::test]
async fn gemini_keeps_signatures_on_their_parts_and_cleans_schemas() {
    let body = second_request(ProviderKind::Gemini).await;
    assert_eq!(at(&body, "/systemInstruction/parts/0/text"), "Be brief.");
    assert_eq!(
        at(&body, "/tools/0/functionDeclarations/0/parameters"),
        &json!({ "type": "object", "properties": { "zone": { "type": "string" } } })
    );
    assert_eq!(
        at(&body, "/contents/1"),
        &json!({ "role": "model", "parts": [
            { "text": "Looking." },
            { "functionCall": { "name": "mcp__time__current_time", "args": {} }, "thoughtSignature": "c2lnbmF0dXJl+1/=" },
            { "functionCall": { "name": "mcp__echo__echo", "args": { "n": 7 } } },
        ] })
    );
    assert_eq!(
        at(&body, "/contents/2/parts"),
        &json!([
            { "functionResponse": { "name": "mcp__time__current_time", "response": { "output": "20:00" },
              "parts": [{ "inlineData": { "mimeType": "image/png", "data": "AAAA" } }] } },
            { "functionResponse": { "name": "mcp__echo__echo", "response": { "error": "broken" } } },
        ])
    );
}

#[tokio::test]
async fn gemini_marks_calls_that_another_model_made() {
    let server = serve([Turn::text("ok")]).await;
    let call = ToolCall {
        id: "x".to_owned(),
        name: "mcp__echo__echo".to_owned(),
        arguments: "{}".to_owned(),
    };
    let turn = AssistantTurn {
        calls: vec![call],
        ..AssistantTurn::default()
    };
    let results = vec![result(&turn, 0, vec![Part::text("r")], false)];
    let mut messages = question().messages;
    messages.extend([Message::Assistant(turn), Message::ToolResults { results }]);
    finished(&model(&server, ProviderKind::Gemini), request(messages)).await;
    let body = &server.requests()[0].body;
    assert_eq!(
        at(body, "/contents/1/parts/0/thoughtSignature"),
        "skip_thought_signature_validator"
    );
}

#[tokio::test]
async fn a_model_without_eyes_is_told_what_it_misses() {
    for kind in ProviderKind::ALL {
        let server = serve([Turn::text("ok")]).await;
        let image = Part::Image {
            media_type: "image/png".to_owned(),
            data: "A".repeat(40_000),
        };
        let user = Message::User {
            content: vec![Part::text("What is this?"), image],
        };
        finished(&model(&server, kind), request(vec![user])).await;
        let asked = server.requests()[0].question().unwrap();
        let expected = "What is this?\n[an image (image/png, 30 kB) was left out: this model does not see images]";
        assert_eq!(asked, expected, "{kind:?}");
    }
}

#[tokio::test]
async fn big_numbers_and_unreadable_arguments_go_back_as_they_were() {
    for kind in ProviderKind::ALL {
        let server = serve([Turn::text("ok")]).await;
        let call = |id: &str, arguments: &str| ToolCall {
            id: id.to_owned(),
            name: "mcp__echo__echo".to_owned(),
            arguments: arguments.to_owned(),
        };
        let calls = vec![
            call("functions.echo:0", "{\"n\":123456789012345678901234567890}"),
            call("b", "{\"n\": "),
        ];
        let turn = AssistantTurn {
            calls,
            ..AssistantTurn::default()
        };
        let results = (0..2)
            .map(|index| result(&turn, index, vec![Part::text("r")], false))
            .collect();
        let mut messages = question().messages;
        messages.extend([Message::Assistant(turn), Message::ToolResults { results }]);
        finished(&model(&server, kind), request(messages)).await;
        let text = &server.requests()[0].text;
        assert!(
            text.contains("123456789012345678901234567890"),
            "{kind:?}: {text}"
        );
        assert!(text.contains("unreadable_arguments"), "{kind:?}: {text}");
    }
}

#[tokio::test]
async fn chat_completions_gives_up_what_a_server_refuses_and_remembers_it() {
    let answers = [
        Turn::status(
            400,
            "Unrecognized request argument supplied: stream_options",
        ),
        Turn::status(
            400,
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        ),
        Turn::text("one"),
        Turn::text("two"),
    ];
    let server = serve(answers).await;
    let model = model(&server, ProviderKind::OpenAiChat);
    let mut limited = question();
    limited.max_output_tokens = Some(50);
    assert_eq!(finished(&model, limited.clone()).await.text, "one");
    assert_eq!(finished(&model, limited).await.text, "two");
    let requests = server.requests();
    assert_eq!(requests.len(), 4, "the second turn asks once");
    assert_eq!(at(&requests[0].body, "/max_tokens"), &json!(50));
    for request in &requests[2..] {
        assert_eq!(at(&request.body, "/stream_options"), &Value::Null);
        assert_eq!(at(&request.body, "/max_completion_tokens"), &json!(50));
        assert_eq!(at(&request.body, "/max_tokens"), &Value::Null);
    }
    // A refusal that stays is the provider's word.
    let stubborn = serve([Turn::status(400, "stream_options is wrong").times(9)]).await;
    let (_, error) = failed(
        &crate::provider_play::model(&stubborn, ProviderKind::OpenAiChat),
        question(),
    )
    .await;
    assert_eq!(
        (error.kind, stubborn.requests().len()),
        (ModelErrorKind::Rejected, 2)
    );
}

#[tokio::test]
async fn responses_does_without_reasoning_where_there_is_none() {
    let refusal = Turn::status(400, "Encrypted content is not supported with this model.");
    let server = serve([refusal, Turn::text("plain")]).await;
    let seen = finished(&model(&server, ProviderKind::OpenAiResponses), question()).await;
    assert_eq!(seen.text, "plain");
    assert_eq!(at(&server.requests()[1].body, "/include"), &Value::Null);
}

#[tokio::test]
async fn responses_drops_reasoning_that_the_provider_cannot_read() {
    let first = Turn::calls([("mcp__echo__echo", json!({}))]).reasoning("Hm.");
    let refusal = Turn::status(
        400,
        "The encrypted content for item rs_1 could not be verified.",
    );
    let server = serve([first, refusal, Turn::text("ok")]).await;
    let model = model(&server, ProviderKind::OpenAiResponses);
    let turn = finished(&model, question()).await.turn;
    let results = vec![result(&turn, 0, vec![Part::text("r")], false)];
    let mut messages = question().messages;
    messages.extend([Message::Assistant(turn), Message::ToolResults { results }]);
    assert_eq!(finished(&model, request(messages)).await.text, "ok");
    assert!(server.requests()[1].text.contains("c2lnbmF0dXJl"));
    assert!(!server.requests()[2].text.contains("c2lnbmF0dXJl"));
}

#[tokio::test]
async fn deepseek_gets_its_field_even_when_there_was_no_reasoning() {
    let server = serve([
        Turn::calls([("mcp__echo__echo", json!({}))]),
        Turn::text("ok"),
    ])
    .await;
    let mut spec = spec(&server, ProviderKind::OpenAiChat);
    spec.id = "deepseek:deepseek-flash".to_owned();
    let model = build(spec).unwrap();
    let turn = finished(&model, question()).await.turn;
    assert_eq!(turn.carry, None);
    let results = vec![result(&turn, 0, vec![Part::text("r")], false)];
    let mut messages = question().messages;
    messages.extend([Message::Assistant(turn), Message::ToolResults { results }]);
    finished(&model, request(messages)).await;
    assert_eq!(
        at(&server.requests()[1].body, "/messages/2/reasoning_content"),
        ""
    );
}

/// A stream of Chat Completions as it stands, from a server that only nearly speaks it.
async fn imitated(content_type: &str, body: &str) -> (Seen, Option<ModelError>) {
    let server = serve([Turn::body(200, content_type, body)]).await;
    play(&model(&server, ProviderKind::OpenAiChat), question()).await
}

fn chunk(delta: &Value, finish: &Value) -> String {
    format!(
        "data: {}\n\n",
        json!({ "choices": [{ "delta": delta, "finish_reason": finish }] })
    )
}

#[tokio::test]
async fn usage_beside_the_last_choice_and_no_end_marker() {
    let last = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 30, "completion_tokens": 2, "prompt_cache_hit_tokens": 20 } });
    let first = chunk(
        &json!({ "content": "hi", "tool_calls": null }),
        &Value::Null,
    );
    let body = format!(": keep-alive\n\n{first}data: {last}\n\n");
    let (seen, _) = imitated("text/event-stream", &body).await;
    assert_eq!(
        (&*seen.text, seen.usage),
        (
            "hi",
            Usage {
                input: 30,
                cached: 20,
                output: 2
            }
        )
    );
}

#[tokio::test]
async fn a_whole_call_in_one_chunk_without_index_id_or_reason() {
    let call = json!({ "function": { "name": "t", "arguments": { "a": 1 } } });
    let body = chunk(&json!({ "tool_calls": [call] }), &Value::Null) + "data: [DONE]\n\n";
    let (seen, _) = imitated("text/event-stream", &body).await;
    assert_eq!(seen.turn.calls[0].arguments, r#"{"a":1}"#);
    assert_eq!(
        (&*seen.turn.calls[0].id, seen.stop),
        ("call_1", Some(StopReason::Done))
    );
}

#[tokio::test]
async fn calls_count_even_when_the_reason_says_stop() {
    let call = json!({ "index": 0, "id": "z", "function": { "name": "t", "arguments": "" } });
    let body = chunk(&json!({ "tool_calls": [call] }), &json!("stop")) + "data: [DONE]";
    let (seen, _) = imitated("text/event-stream", &body).await;
    assert_eq!(
        (seen.turn.calls.len(), &*seen.turn.calls[0].arguments),
        (1, "")
    );
}

#[tokio::test]
async fn a_server_that_does_not_stream() {
    let document = json!({
        "object": "chat.completion",
        "usage": { "prompt_tokens": 3, "completion_tokens": 1 },
        "choices": [{ "message": { "role": "assistant", "content": "all at once" }, "finish_reason": "stop" }],
    });
    let (seen, _) = imitated("application/json", &document.to_string()).await;
    assert_eq!((&*seen.turn.text, seen.usage.input), ("all at once", 3));

    let error = r#"{"error":{"message":"no such model","code":404}}"#;
    let (_, error) = imitated("application/json", error).await;
    assert_eq!(error.unwrap().kind, ModelErrorKind::Rejected);
}

#[tokio::test]
async fn openrouter_gets_its_reasoning_details_back_joined() {
    let detail = |text: &str, signature: Value| json!({ "type": "reasoning.text", "index": 0, "text": text, "signature": signature });
    let chunk = |delta: Value| format!("data: {}\n\n", json!({ "choices": [{ "delta": delta }] }));
    let call = json!({ "index": 0, "id": "a", "function": { "name": "mcp__echo__echo", "arguments": "{}" } });
    let stream = [
        chunk(json!({ "reasoning": "Let ", "reasoning_details": [detail("Let ", Value::Null)] })),
        chunk(json!({ "reasoning": "me.", "reasoning_details": [detail("me.", json!("sig=="))] })),
        chunk(json!({ "tool_calls": [call] })),
        "data: [DONE]\n\n".to_owned(),
    ];
    let server = serve([
        Turn::body(200, "text/event-stream", &stream.concat()),
        Turn::text("ok"),
    ])
    .await;
    let model = model(&server, ProviderKind::OpenAiChat);
    let turn = finished(&model, question()).await.turn;
    let results = vec![result(&turn, 0, vec![Part::text("r")], false)];
    let mut messages = question().messages;
    messages.extend([Message::Assistant(turn), Message::ToolResults { results }]);
    finished(&model, request(messages)).await;
    let sent = server.requests().remove(1).body;
    assert_eq!(at(&sent, "/messages/2/reasoning"), "Let me.");
    assert_eq!(
        at(&sent, "/messages/2/reasoning_details"),
        &json!([detail("Let me.", json!("sig=="))])
    );
}

#[tokio::test]
async fn gemini_reports_a_blocked_prompt_and_retries_a_call_it_could_not_read() {
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#;
    let server = serve([Turn::body(
        200,
        "text/event-stream",
        &format!("data: {blocked}\n\n"),
    )])
    .await;
    let (_, error) = failed(&model(&server, ProviderKind::Gemini), question()).await;
    insta::assert_snapshot!(words(&error), @r"
    gemini:scripted: the provider blocked the prompt (SAFETY)
    hint: another model: `--model gemini:NAME`
    ");

    let malformed =
        r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"call:x"}]}"#;
    let server = serve([
        Turn::body(200, "text/event-stream", &format!("data: {malformed}\n\n")),
        Turn::text("fine"),
    ])
    .await;
    let seen = finished(&model(&server, ProviderKind::Gemini), question()).await;
    assert_eq!((&*seen.text, seen.retries.len()), ("fine", 1));
    assert!(
        server.requests()[0]
            .path
            .ends_with("/v1/models/scripted:streamGenerateContent?alt=sse")
    );
}

#[tokio::test]
async fn a_key_in_headers_or_in_the_url_is_as_secret() {
    let server = serve([Turn::status(400, "who is hidden-header, and hidden-query?")]).await;
    let mut spec = spec(&server, ProviderKind::OpenAiChat);
    spec.headers = vec![(
        "x-key".to_owned(),
        Secret::new("hidden-header", "`headers`"),
    )];
    spec.base_url = format!("{}?key=hidden-query", server.base_url())
        .parse()
        .unwrap();
    let before = format!("{spec:?}");
    let (_, error) = failed(&build(spec).unwrap(), question()).await;
    assert!(
        !format!("{before} {error:?}").contains("hidden"),
        "{before} {error:?}"
    );
    let sent = server.requests().remove(0);
    assert_eq!(sent.header("x-key"), Some("hidden-header"));
    assert_eq!(sent.path, "/v1/chat/completions?key=hidden-query");
}

#[tokio::test]
async fn errors_as_a_person_reads_them() {
    let server = serve([Turn::status(401, "invalid x-api-key")]).await;
    let (_, error) = failed(&model(&server, ProviderKind::Anthropic), question()).await;
    insta::assert_snapshot!(words(&error), @r"
    anthropic:scripted: invalid x-api-key (401 Unauthorized)
    hint: the key came from `TEST_API_KEY` in the environment; check that it is current and meant for http://127.0.0.1:PORT/v1
    ");

    let server = serve([Turn::body(200, "text/html", "<html>")]).await;
    let (_, error) = failed(&model(&server, ProviderKind::OpenAiChat), question()).await;
    insta::assert_snapshot!(words(&error), @r"
    openai-chat:scripted: the server answered 200 OK with text/html where a stream of events was expected
    hint: check that the base URL http://127.0.0.1:PORT/v1 is the API of `openai-chat`
    ");

    let server =
        serve([Turn::status(429, "Rate limit reached").header("retry-after", "600")]).await;
    let (_, error) = failed(&model(&server, ProviderKind::OpenAiResponses), question()).await;
    insta::assert_snapshot!(words(&error), @r"
    openai-responses:scripted: Rate limit reached (429 Too Many Requests)
    hint: ask again in 600 s, or choose another model with `--model`
    ");

    let mut spec = spec(&server, ProviderKind::OpenAiChat);
    spec.base_url = NOWHERE.parse().unwrap();
    spec.id = "ollama:qwen3".to_owned();
    spec.max_retries = 0;
    let (_, error) = failed(&build(spec).unwrap(), question()).await;
    insta::assert_snapshot!(words(&error), @r"
    ollama:qwen3: http://127.0.0.1:PORT/v1 could not be reached: Connection refused (os error 111)
    hint: is Ollama running at http://127.0.0.1:PORT/v1? `ollama serve` starts it
    ");
}
