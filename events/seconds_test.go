package events

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSecondsAreExact(t *testing.T) {
	tenth := MustSeconds("0.1")
	sum := Seconds{}
	for range 10 {
		sum = sum.Add(tenth)
	}
	if sum.String() != "1" || !sum.Equal(WholeSeconds(1)) {
		t.Fatalf("ten tenths are %s", sum)
	}
	if got := WholeSeconds(3600).Mul(MustSeconds("0.5")).String(); got != "1800" {
		t.Fatalf("half an hour is %s", got)
	}
}

func TestSecondsRefuse(t *testing.T) {
	for _, text := range []string{"", "NaN", "Infinity", "-Inf", "1e400", "1e99999999", "x", "1 s", "0x10", "1e-40"} {
		if v, err := ParseSeconds(text); err == nil {
			t.Errorf("%q was read as %s", text, v)
		}
	}
}

func TestSecondsDurationClamps(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"300000000000": math.MaxInt64, "-300000000000": math.MinInt64,
		"0.0000000019": 1, "-0.0000000011": -2, "1.5": 1500 * time.Millisecond, "1e3": 1000 * time.Second,
	} {
		if got := MustSeconds(text).Duration(); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

func TestSecondsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "ns"))
		s := FromDuration(d)
		if s.Duration() != d {
			t.Fatalf("%d ns came back as %d", d, s.Duration())
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Seconds
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		again, _ := json.Marshal(back)
		if !back.Equal(s) || string(again) != string(b) {
			t.Fatalf("%s came back as %s", b, again)
		}
	})
}

// TestSecondsReadTheSameBothWays: what is read without apd is what apd reads.
func TestSecondsReadTheSameBothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,10})(\.[0-9]{1,11})?`).Draw(t, "text")
		long, err := ParseSeconds(text + "e0") // an exponent goes through apd
		if err != nil {
			t.Fatal(err)
		}
		short, err := ParseSeconds(text)
		if err != nil || !short.Equal(long) || short.String() != long.String() || string(short.Append(nil)) != long.String() {
			t.Fatalf("%s is read as %s and as %s, %v", text, short, long, err)
		}
	})
}
