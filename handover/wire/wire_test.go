package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	anIncarnation      = "01JDYAVT2R0000000000000001"
	anotherIncarnation = "01JDYAVT2R0000000000000000"
	aNonce             = "AAECAwQFBgcICQoLDA0ODw"
)

// aXKey is a public curve key from a fixed seed.
func aXKey(t testing.TB) string {
	t.Helper()
	seed := bytes.Repeat([]byte{7}, 32)
	text, err := nkeys.EncodeSeed(nkeys.PrefixByteCurve, seed)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.FromCurveSeed(text)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func aKey(t testing.TB) string {
	t.Helper()
	text, err := nkeys.EncodeSeed(nkeys.PrefixByteUser, bytes.Repeat([]byte{9}, 32))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.FromSeed(text)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// samples has one of each message, all fields set.
func samples(t testing.TB) []Body {
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	left := SecondsOf(3599500 * time.Millisecond)
	values := Values(`{"username":"v-orders-1","password":"<&>p4ss","port":5432,"big":9007199254740993,"nested":{"a.b":null}}`)
	key, xkey := aKey(t), aXKey(t)
	return []Body{
		Registration{Consumer: "orders-api", Instance: "orders-api-0", Incarnation: anIncarnation, Replaces: anotherIncarnation,
			Key: key, XKey: xkey, Subject: ConsumerSubject("prod", "orders-db", anIncarnation), Protocol: 1, Time: at, Nonce: aNonce},
		Answer{Scope: "prod", Name: "orders-db", Incarnation: anIncarnation, Nonce: aNonce, Epoch: 7, N: 1042, Lease: 12,
			ExpiresIn: &left, Public: "v-orders-1", Values: values},
		Leave{Consumer: "orders-api", Instance: "orders-api-0", Incarnation: anIncarnation, Key: key, Time: at, Nonce: aNonce},
		Left{Incarnation: anIncarnation},
		Message{Kind: KindPrepare, Scope: "prod", Name: "orders-db", Incarnation: anIncarnation, Epoch: 7, N: 1050, Lease: 13,
			TimeLeft: SecondsOf(29500 * time.Millisecond), ExpiresIn: &left, Public: "v-orders-1", Values: values},
		Reply{Scope: "prod", Name: "orders-db", Incarnation: anIncarnation, Epoch: 7, N: 1050, Kind: KindPrepare,
			Verdict: No, Reason: "the login is refused", LastN: 1050},
		Get{XKey: xkey, Keys: []string{"username", "password"}, Nonce: aNonce},
		Got{Scope: "prod", Name: "orders-db", Nonce: aNonce, Epoch: 7, N: 1042, Lease: 12, Values: values,
			GoodFor: SecondsOf(30 * time.Second), ExpiresIn: &left, Public: "v-orders-1"},
		Key{XKey: xkey, KeyID: "0123456789abcdef", Epoch: 7},
		Refused{Consumer: "orders-api", Instance: "orders-api-0", Incarnation: anIncarnation, Key: key, Lease: 12,
			Reason: "28P01", Time: at, Nonce: aNonce},
		Refusal{Code: CodeMismatch, Message: "another incarnation is registered", Registered: anotherIncarnation, Holder: "node-b"},
	}
}

// again decodes data as the type of b.
func again(b Body, data []byte) (Body, error) {
	switch b.(type) {
	case Registration:
		return Decode[Registration](data)
	case Answer:
		return Decode[Answer](data)
	case Leave:
		return Decode[Leave](data)
	case Left:
		return Decode[Left](data)
	case Message:
		return Decode[Message](data)
	case Reply:
		return Decode[Reply](data)
	case Get:
		return Decode[Get](data)
	case Got:
		return Decode[Got](data)
	case Key:
		return Decode[Key](data)
	case Refused:
		return Decode[Refused](data)
	case Refusal:
		return Decode[Refusal](data)
	}
	panic("no such message")
}

func TestGoldenMessages(t *testing.T) {
	for _, b := range samples(t) {
		t.Run(b.Type(), func(t *testing.T) {
			data, err := Encode(b)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", b.Type()+".v1.json")
			if *update {
				if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(data)+"\n" != string(want) {
				t.Errorf("encoded as\n%s\nthe golden file has\n%s", data, want)
			}
			decoded, err := again(b, want)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Encode(decoded)
			if err != nil || !bytes.Equal(back, data) {
				t.Errorf("decoded and encoded again (%v):\n%s", err, back)
			}
		})
	}
}

// TestALaterReleasesMessagesAreRead: consumers and services of two releases speak
// with each other, so what only the other side knows is left alone, in every
// message.
func TestALaterReleasesMessagesAreRead(t *testing.T) {
	for _, b := range samples(t) {
		data, err := Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		more := append([]byte(`{"later":{"x":[1,null]},`), data[1:]...)
		decoded, err := again(b, more)
		if err != nil {
			t.Errorf("%s: %v", b.Type(), err)
			continue
		}
		if back, err := Encode(decoded); err != nil || !bytes.Equal(back, data) {
			t.Errorf("%s: read as\n%s (%v), was\n%s", b.Type(), back, err, data)
		}
	}
}

func TestDecodeIsStrict(t *testing.T) {
	good, err := Encode(samples(t)[4])
	if err != nil {
		t.Fatal(err)
	}
	swap := func(old, now string) []byte {
		t.Helper()
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("the sample has no %s", old)
		}
		return bytes.Replace(good, []byte(old), []byte(now), 1)
	}
	for name, tc := range map[string]struct {
		data []byte
		want error
	}{
		"unknown field":     {swap(`"epoch"`, `"later":[1],"epoch"`), nil},
		"time as number":    {swap(`"time_left_s":"29.5"`, `"time_left_s":29.5`), nil},
		"later version":     {swap(`"v":1`, `"v":2`), ErrVersion},
		"no version":        {swap(`"v":1,`, ``), ErrMalformed},
		"another type":      {swap(`"type":"message"`, `"type":"answer"`), ErrMalformed},
		"not JSON":          {good[:len(good)-1], ErrMalformed},
		"empty":             {nil, ErrMalformed},
		"null":              {[]byte("null"), ErrMalformed},
		"too large":         {bytes.Repeat([]byte{' '}, MaxBytes+1), ErrTooLarge},
		"negative time":     {swap(`"29.5"`, `"-1"`), ErrMalformed},
		"time NaN":          {swap(`"29.5"`, `"NaN"`), ErrMalformed},
		"time 1e9":          {swap(`"29.5"`, `1e9`), ErrMalformed},
		"huge time":         {swap(`"29.5"`, `"9999999999"`), ErrMalformed},
		"negative n":        {swap(`"n":1050`, `"n":-1`), ErrMalformed},
		"n beyond 64 bits":  {swap(`"n":1050`, `"n":18446744073709551616`), ErrMalformed},
		"n zero":            {swap(`"n":1050`, `"n":0`), ErrMalformed},
		"epoch zero":        {swap(`"epoch":7`, `"epoch":0`), ErrMalformed},
		"unknown kind":      {swap(`"prepare"`, `"perhaps"`), ErrMalformed},
		"scope with dot":    {swap(`"prod"`, `"pr.od"`), ErrMalformed},
		"name with star":    {swap(`"orders-db"`, `"*"`), ErrMalformed},
		"short incarnation": {swap(anIncarnation, "01J"), ErrMalformed},
		"values a list":     {swap(`{"username"`, `[{"username"`), ErrMalformed},
		"no lease":          {swap(`"lease":13`, `"lease":0`), ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode[Message](tc.data)
			if !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "p4ss") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

func TestEncodeRefusesTooLarge(t *testing.T) {
	m := samples(t)[4].(Message)
	m.Values = Values(`{"a":"` + strings.Repeat("x", MaxBytes) + `"}`)
	if _, err := Encode(m); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestValuesPassByteForByte(t *testing.T) {
	m := samples(t)[4].(Message)
	m.Values = Values(`{"a":"<>&\u2028","n":123456789012345678901234567890,"z":1.0,"null":null,"dup":1,"dup":2,"":0}`)
	data, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode[Message](data)
	if err != nil || !bytes.Equal(back.Values, m.Values) {
		t.Errorf("%v: %s", err, []byte(back.Values))
	}
}

func TestNothingPrintsValues(t *testing.T) {
	var log bytes.Buffer
	for _, b := range samples(t) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			fmt.Fprintf(&log, verb+"\n", b)
			fmt.Fprintf(&log, verb+"\n", &b)
		}
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "m", b)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "m", b)
	}
	if strings.Contains(log.String(), "p4ss") {
		t.Errorf("printed:\n%s", log.String())
	}
}

func TestSignature(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := pair.PublicKey()
	other, _ := nkeys.CreateUser()
	otherPublic, _ := other.PublicKey()
	body := []byte(`{"v":1}`)
	sig, err := Sign(pair, "reply", "prod", "db", body)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(public, sig, "reply", "prod", "db", body); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"other key":   Verify(otherPublic, sig, "reply", "prod", "db", body),
		"no key":      Verify("", sig, "reply", "prod", "db", body),
		"other type":  Verify(public, sig, "leave", "prod", "db", body),
		"other scope": Verify(public, sig, "reply", "test", "db", body),
		"other name":  Verify(public, sig, "reply", "prod", "db2", body),
		"other body":  Verify(public, sig, "reply", "prod", "db", []byte(`{"v":1} `)),
		"no sig":      Verify(public, "", "reply", "prod", "db", body),
		"short sig":   Verify(public, sig[:20], "reply", "prod", "db", body),
		"garbage":     Verify(public, "!!", "reply", "prod", "db", body),
	} {
		if !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeal(t *testing.T) {
	service, _ := nkeys.CreateCurveKeys()
	servicePublic, _ := service.PublicKey()
	reader, _ := nkeys.CreateCurveKeys()
	readerPublic, _ := reader.PublicKey()
	mallory, _ := nkeys.CreateCurveKeys()
	malloryPublic, _ := mallory.PublicKey()

	sealed, err := Seal(service, readerPublic, []byte("secret text"))
	if err != nil {
		t.Fatal(err)
	}
	if !IsSealed(sealed) || bytes.Contains(sealed, []byte("secret")) {
		t.Error("not sealed")
	}
	plain, err := Open(reader, servicePublic, sealed)
	if err != nil || string(plain) != "secret text" {
		t.Errorf("%q, %v", plain, err)
	}
	forged, _ := Seal(mallory, readerPublic, []byte("secret text"))
	changed := bytes.Clone(sealed)
	changed[len(changed)-1] ^= 1
	for name, open := range map[string]func() ([]byte, error){
		"other reader": func() ([]byte, error) { return Open(mallory, servicePublic, sealed) },
		"other sender": func() ([]byte, error) { return Open(reader, malloryPublic, sealed) },
		"forged":       func() ([]byte, error) { return Open(reader, servicePublic, forged) },
		"changed":      func() ([]byte, error) { return Open(reader, servicePublic, changed) },
		"cut":          func() ([]byte, error) { return Open(reader, servicePublic, sealed[:10]) },
		"no key":       func() ([]byte, error) { return Open(reader, "", sealed) },
		"long key":     func() ([]byte, error) { return Open(reader, strings.Repeat("X", 200), sealed) },
	} {
		if _, err := open(); !errors.Is(err, ErrSeal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIncarnationsSortByTime(t *testing.T) {
	at := time.Now()
	last := ""
	for range 1000 {
		id, err := NewIncarnation(at, "") // the clock stands still
		if err != nil {
			t.Fatal(err)
		}
		if CheckIncarnation(id) != nil || id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
	ahead, err := NewIncarnation(at.AddDate(5, 0, 0), "")
	if err != nil {
		t.Fatal(err)
	}
	above, err := NewIncarnation(at, ahead)
	if err != nil || above <= ahead {
		t.Errorf("%s is not above %s: %v", above, ahead, err)
	}
	if _, err := NewIncarnation(at, "7ZZZZZZZZZ0000000000000000"); err == nil {
		t.Error("something is above the last incarnation")
	}
	for _, bad := range []string{"", "01J", "8ZZZZZZZZZ0000000000000000", "01JDYAVT2R000000000000000U", "01jdyavt2r0000000000000001"} {
		if !errors.Is(CheckIncarnation(bad), ErrIncarnation) {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestSubjects(t *testing.T) {
	op, scope, name, err := ParseSubject(Subject(OpGet, "prod", "db"))
	if op != OpGet || scope != "prod" || name != "db" || err != nil {
		t.Error(op, scope, name, err)
	}
	for _, bad := range []string{"", "leasesvc.get.prod", "leasesvc.get.prod.a.b", "leasesvc.get.prod.*", "leasesvc.get..db",
		"leasesvc.steal.prod.db", "other.get.prod.db", "leasesvc.get.prod._db", "leasesvc.get.prod." + strings.Repeat("a", 65)} {
		if _, _, _, err := ParseSubject(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestSecondsRoundTrip(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"0"`: 0, `0`: 0, `"29.5"`: 29500 * time.Millisecond, `1.000000001`: time.Second + 1, `"3153600000"`: MaxSeconds.Duration(),
	} {
		var s Seconds
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.Duration() != want {
			t.Errorf("%s: %v, %v", text, s.Duration(), err)
		}
	}
	if SecondsOf(-time.Second) != 0 || SecondsOf(1<<63-1) != MaxSeconds {
		t.Error("not clamped")
	}
}

func TestReasonIsRedactedAndBounded(t *testing.T) {
	values := Values(`{"username":"v-1","password":"p \"q/ä","pin":123456,"list":["deep&value"]}`)
	err := fmt.Errorf("user v-1: %q and %s and %s and %s\npin 123456 deep&value p \"q/ä",
		`p "q/ä`, `p+%22q%2F%C3%A4`, `p%20%22q%2F%C3%A4`, "deep%26value")
	got := Reason(err, values, "v-1")
	for _, leak := range []string{"q/ä", "q%2F", "123456", "deep", "\n"} {
		if strings.Contains(got, leak) {
			t.Errorf("%q is in %q", leak, got)
		}
	}
	if !strings.Contains(got, "user v-1") {
		t.Errorf("the public value is gone: %q", got)
	}
	if got := Reason(errors.New("red act"), Values(`{"1":"r","2":"e","3":"d","4":"a","5":"c","6":"t","7":"[","8":"]"}`), ""); len(got) != 6*len("[redacted]")+1 {
		t.Errorf("short values: %q", got)
	}
	long := Reason(errors.New(strings.Repeat("ä", 300)), nil, "")
	if len(long) > MaxReason || !strings.HasPrefix(long, "ää") || strings.ContainsRune(long, '\uFFFD') {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}

func TestL14_OnlyTheRightVerdictAnswers(t *testing.T) {
	for _, k := range []Kind{KindPrepare, KindFollow, KindRevert, "x"} {
		for _, v := range []Verdict{Yes, No, Confirmed, Stale, "", "ok", "YES", "yes "} {
			want := v == Yes && k == KindPrepare || v == Confirmed && (k == KindFollow || k == KindRevert) ||
				(v == No || v == Stale) && k.Known()
			if v.Answers(k) != want {
				t.Errorf("%q to %q", v, k)
			}
		}
	}
}

// FuzzDecode: no input panics, and what decodes encodes to something that
// decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, b := range samples(f) {
		data, err := Encode(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"v":1,"type":"left","incarnation":null}`))
	kinds := samples(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range kinds {
			m, err := again(kind, data)
			if err != nil {
				continue
			}
			first, err := Encode(m)
			if err != nil {
				if errors.Is(err, ErrTooLarge) {
					continue
				}
				t.Fatalf("%s decodes and does not encode: %v", kind.Type(), err)
			}
			m, err = again(kind, first)
			if err != nil {
				t.Fatalf("%s does not decode again: %v\n%s", kind.Type(), err, first)
			}
			second, err := Encode(m)
			if err != nil || !bytes.Equal(first, second) {
				t.Fatalf("%s is not stable: %v\n%s\n%s", kind.Type(), err, first, second)
			}
		}
	})
}

func FuzzOpen(f *testing.F) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		f.Fatal(err)
	}
	public, _ := pair.PublicKey()
	sealed, _ := Seal(pair, public, []byte("{}"))
	f.Add(sealed, public)
	f.Add([]byte("xkv1"), "X")
	f.Fuzz(func(t *testing.T, data []byte, from string) {
		_, _ = Open(pair, from, data)
		_ = Verify(from, string(data), "reply", "s", "n", data)
		_, _, _, _ = ParseSubject(from)
	})
}
