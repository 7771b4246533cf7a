package document

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/secret"
)

func TestParseIsStrict(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                 ``,
		"a key twice":           `{"a":1,"a":2}`,
		"a key twice, escaped":  `{"a":1,"\u0061":2}`,
		"something follows":     `{} {}`,
		"a comma too many":      `{"a":[1,]}`,
		"a comma missing":       `[1 2]`,
		"not closed":            `{"a":[1`,
		"half a surrogate pair": `{"a":"\ud800"}`,
		"half a pair as a key":  `{"\udc00":1}`,
		"not UTF-8":             "{\"a\":\"\xff\"}",
		"a number of no JSON":   `{"a":01}`,
		"too deep":              strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
		"too long":              `"` + strings.Repeat("x", MaxBytes) + `"`,
		"a colon missing":       `{"` + hidden + `" 1}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(text))
			if err == nil {
				t.Fatal("it was taken")
			}
			wantIs(t, err, ErrMalformed)
		})
	}
	for _, text := range []string{
		`null`, `{"a":"\ufffd"}`, `{"a":"\ud83d\ude00"}`, ` [1e400, -0.10, 12345678901234567890] `,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
	} {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

func TestEncodeKeepsNumbersAndSortsKeys(t *testing.T) {
	v := tree(t, `{"b":[1.50,12345678901234567890,{"":null}],"a":"<&>\u2028\"","_":true}`)
	wantText(t, "encoded", string(v.Encode()), `{"_":true,"a":"<&>\u2028\"","b":[1.50,12345678901234567890,{"":null}]}`)
	again, err := FromAny(v.Reveal())
	if err != nil || !again.Equal(v) {
		t.Fatalf("revealed and taken again it is another tree: %v", err)
	}
}

func TestFromAny(t *testing.T) {
	v, err := FromAny(map[any]any{
		"int": -1, "uint": uint64(math.MaxUint64), "float": 0.5, "number": json.Number("1.0"),
		"secret": secret.New("x"), "nested": []any{nil, true, map[string]any{"a": int8(1)}}, "value": tree(t, `[1]`),
	})
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "encoded", string(v.Encode()),
		`{"float":0.5,"int":-1,"nested":[null,true,{"a":1}],"number":1.0,"secret":"x","uint":18446744073709551615,"value":[1]}`)
	deep := Value{}
	for range MaxDepth {
		deep = Value{&node{kind: List, items: []Value{deep}}}
	}
	if _, err := FromAny(deep); err != nil {
		t.Fatalf("%d levels: %v", MaxDepth, err)
	}
	for name, x := range map[string]any{
		"not finite": math.NaN(), "not UTF-8": "\xff", "a key not UTF-8": map[string]any{"\xff": 1},
		"a key that is no text": map[any]any{1: 1}, "a channel": make(chan int), "no number": json.Number("0x1"),
		"an empty number": json.Number(""), "a number and a space": json.Number("1 "), "too deep": []any{deep},
	} {
		_, err := FromAny(map[string]any{"a": x})
		if err == nil {
			t.Errorf("%s was taken", name)
		}
		wantIs(t, err, ErrValue)
	}
}

func TestPathTellsKeyFromIndex(t *testing.T) {
	for text, canonical := range map[string]string{
		`$`:                               `$`,
		`db.servers[0].password`:          `db.servers[0].password`,
		`["db"]["servers"][0]`:            `db.servers[0]`,
		`db["0"]`:                         `db["0"]`,
		`db[0]`:                           `db[0]`,
		`[0][1]`:                          `[0][1]`,
		`["a.b"][""]["\"]"].x-y_1`:        `["a.b"][""]["\"]"].x-y_1`,
		`["\u00fc"]["ü"]["\ud83d\ude00"]`: `["\u00fc"]["\u00fc"]["\ud83d\ude00"]`,
		`["$"]`:                           `["$"]`,
		`["\n\u202e\u007f"]`:              `["\u000a\u202e\u007f"]`,
	} {
		p, err := ParsePath(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		wantText(t, text, p.String(), canonical)
	}
	if path(t, `db["0"]`) == path(t, `db[0]`) {
		t.Fatal("the key 0 is the index 0")
	}
	for _, text := range []string{
		``, `.`, `.a`, `a.`, `a..b`, `a b`, `0`, `a.0`, `[`, `[]`, `[-1]`, `[01]`, `[+1]`, `[1`, `[99999999999]`, `[a]`, `["a]`,
		`["a"`, `["a"x]`, `a]`, `[0]a`, `$.a`, `$[0]`, `["\ud800"]`, "a\xff", strings.Repeat("[0]", MaxDepth+1), strings.Repeat("a", MaxPath+1),
	} {
		_, err := ParsePath(text)
		if err == nil {
			t.Errorf("%.20q was taken", text)
		}
		wantIs(t, err, ErrPath)
	}
}

func TestReferences(t *testing.T) {
	for text, want := range map[string]Reference{
		`lease://db#password`:         {Lease, "db", "password"},
		`lease://a-1#tls.key#2`:       {Lease, "a-1", "tls.key#2"},
		`vault://kv/data/app#api key`: {Vault, "kv/data/app", "api key"},
		`env://_PG_2`:                 {Environment, "_PG_2", ""},
	} {
		got, err := ParseReference(text)
		if err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
		wantText(t, text, got.String(), text)
	}
	for _, text := range []string{
		``, `db`, `lease:/db#a`, `Lease://db#a`, `file://db#a`, `lease://`, `lease://db`, `lease://db#`, `lease://#a`, `lease://-db#a`,
		`lease://d_b#a`, `lease://db/x#a`, ` lease://db#a`, "lease://db#a\n", `lease://` + strings.Repeat("a", 65) + `#a`,
		`vault://kv`, `vault:///kv#a`, `vault://kv/#a`, `vault://kv//a#b`, `vault://kv/../sys#a`, `vault://kv?version=1#a`,
		`env://`, `env://1A`, `env://A#b`, `env://A-B`, "lease://db#" + strings.Repeat("k", 257), "lease://db#\u202e",
	} {
		_, err := ParseReference(text)
		if err == nil {
			t.Errorf("%.20q was taken", text)
		}
		wantIs(t, err, ErrReference)
	}
}

func TestDocumentRefusesWhatIsNone(t *testing.T) {
	for name, json := range map[string]string{
		"a text":               `"lease://db#a"`,
		"null":                 `null`,
		"a fallback list":      `["lease://db#a"]`,
		"a broken reference":   `{"a":{"b":["x","lease://` + hidden + `_#a"]}}`,
		"a broken fallback":    `{"a":["lease://db#a","vault://` + hidden + `"]}`,
		"a very long path":     `{"` + strings.Repeat("k", MaxPath+1) + `":1}`,
		"too long with spaces": `["` + strings.Repeat(`\u0001`, MaxBytes/6-1) + `"]`,
	} {
		v, err := Parse([]byte(json))
		if err == nil {
			_, err = New("app", 1, v)
		}
		if name == "too long with spaces" {
			if err != nil {
				t.Errorf("what Parse takes at its limit is refused: %v", err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s was taken", name)
		}
		wantIs(t, err, ErrDocument)
	}
	if _, err := New("a_b", 1, tree(t, `{}`)); err == nil {
		t.Error("a name with an underscore was taken")
	}
}

func TestNothingPrintsValues(t *testing.T) {
	json1 := `{"a":"` + hidden + `1","list":[7777777],"ref":"lease://db#password"}`
	vault := vaultOf{"db": {Values: values(t, `{"password":"`+hidden+`2"}`)}}
	s := fresh()
	put(t, s, vault, "app", json1)
	in := install(t, s, "db", `{"password":"`+hidden+`3"}`)
	defer end(t, in)
	doc, _ := s.Document("app")
	resolved, err := s.Resolve("app", vault)
	if err != nil {
		t.Fatal(err)
	}
	content := tree(t, json1)
	pushed, _ := s.Push(context.Background(), "db", vault)
	type holder struct {
		Public  any
		private any
		value   Value
	}
	for _, x := range []any{
		content, doc, resolved, s, in, pushed, vault["db"], vault["db"].Values,
		Update{Content: &content, Assign: []Assignment{{Value: content}}}, in.snapshots, in.Changes(), s.documents,
	} {
		var logged strings.Builder
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "x", x, "h", holder{x, x, content})
		slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "x", x)
		encoded, _ := json.Marshal(holder{Public: x})
		out := logged.String() + string(encoded)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			out += fmt.Sprintf(verb, x) + fmt.Sprintf(verb, &x) + fmt.Sprintf(verb, holder{x, x, content})
		}
		for _, value := range []string{hidden, "7777777", fmt.Sprintf("%x", hidden)} {
			if strings.Contains(out, value) {
				t.Fatalf("%T prints a value: %s", x, out)
			}
		}
	}
	wantText(t, "redacted", string(resolved.Redacted()), `{"a":"[redacted]","list":["[redacted]"],"ref":"lease://db#password"}`)
}

func TestResolvedGivesSecretTexts(t *testing.T) {
	vault := vaultOf{"db": {Values: values(t, `{"password":"`+hidden+`p","tls":{"key":"`+hidden+`k"}}`)}}
	s := fresh()
	put(t, s, vault, "app", `{"a":{"0":"lease://db#password"},"tls":"lease://db#tls","args":["-p","lease://db#password"],
		"nested":[["lease://db#password"],["env://HOME"]],"plain":"\\lease://x#y","twice":"\\\\env://X","slash":"\\x"}`)
	resolved, err := s.Resolve("app", vault)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		`a["0"]`: hidden + "p", `tls.key`: hidden + "k", `args[1]`: hidden + "p", `nested[0]`: hidden + "p", `nested[1]`: hidden + "env-HOME",
		`plain`: "lease://x#y", `twice`: `\env://X`, `slash`: `\x`,
	} {
		v, err := resolved.At(path(t, at))
		if err != nil {
			t.Fatal(err)
		}
		text, ok := v.Text()
		if !ok || text.Reveal() != want {
			t.Errorf("%s does not hold what it should", at)
		}
	}
	_, err = resolved.At(path(t, "tls.cert"))
	wantIs(t, err, ErrNoPlace)
	if _, err := s.Resolve("other", vault); err == nil {
		t.Error("a document that is not there was resolved")
	}
}
