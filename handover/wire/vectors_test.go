package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"testing"

	"github.com/nats-io/nkeys"
)

// vectors are for implementations in other languages: keys that are used
// nowhere else, a signature (ed25519 gives the same each time), and something
// sealed with a fixed nonce.
type vectors struct {
	Signature struct {
		Seed      string `json:"seed"`
		Public    string `json:"public"`
		Type      string `json:"type"`
		Scope     string `json:"scope"`
		Name      string `json:"name"`
		Body      string `json:"body"`
		Canonical string `json:"canonical"`
		Header    string `json:"header"`
	} `json:"signature"`
	Seal struct {
		ServiceSeed       string `json:"service_seed"`
		ServicePublic     string `json:"service_public"`
		IncarnationSeed   string `json:"incarnation_seed"`
		IncarnationPublic string `json:"incarnation_public"`
		Plain             string `json:"plain"`
		SealedBase64      string `json:"sealed_base64"`
	} `json:"seal"`
}

func pairOf(t *testing.T, prefix nkeys.PrefixByte, fill byte) (nkeys.KeyPair, string, string) {
	t.Helper()
	seed, err := nkeys.EncodeSeed(prefix, bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	from := nkeys.FromSeed
	if prefix == nkeys.PrefixByteCurve {
		from = nkeys.FromCurveSeed
	}
	pair, err := from(seed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, string(seed), public
}

func TestVectorsForOtherLanguages(t *testing.T) {
	var v vectors
	user, seed, public := pairOf(t, nkeys.PrefixByteUser, 9)
	body, err := Encode(samples(t)[5])
	if err != nil {
		t.Fatal(err)
	}
	sig, err := Sign(user, "reply", "prod", "orders-db", body)
	if err != nil {
		t.Fatal(err)
	}
	s := &v.Signature
	s.Seed, s.Public, s.Type, s.Scope, s.Name = seed, public, "reply", "prod", "orders-db"
	s.Body, s.Canonical, s.Header = string(body), string(Canonical("reply", "prod", "orders-db", body)), sig

	service, serviceSeed, servicePublic := pairOf(t, nkeys.PrefixByteCurve, 7)
	inc, incSeed, incPublic := pairOf(t, nkeys.PrefixByteCurve, 8)
	plain, err := Encode(samples(t)[4])
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := service.SealWithRand(plain, incPublic, bytes.NewReader(bytes.Repeat([]byte{1}, 24)))
	if err != nil {
		t.Fatal(err)
	}
	b := &v.Seal
	b.ServiceSeed, b.ServicePublic, b.IncarnationSeed, b.IncarnationPublic = serviceSeed, servicePublic, incSeed, incPublic
	b.Plain, b.SealedBase64 = string(plain), base64.StdEncoding.EncodeToString(sealed)

	got, err := marshalIndent(v)
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/vectors.json"
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the vectors are now\n%s", got)
	}
	if err := Verify(public, sig, "reply", "prod", "orders-db", body); err != nil {
		t.Error(err)
	}
	if opened, err := Open(inc, servicePublic, sealed); err != nil || !bytes.Equal(opened, plain) {
		t.Error(err)
	}
}

func marshalIndent(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return buf.Bytes(), err
}
