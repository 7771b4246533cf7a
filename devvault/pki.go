package devvault

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"
)

// pki is a PKI engine. Its state is guarded by Server.mu. Keys are made
// outside of it.
type pki struct {
	server       *Server
	mount        *mount
	issuers      []*issuer // the first is the default, as the first root is
	roles        map[string]*pkiRole
	certificates map[string]*pkiCertificate // by serial number
	crlNumber    int64
}

// issuer is a root certificate with its key.
type issuer struct {
	id          string
	certificate *x509.Certificate
	key         crypto.Signer
}

// pkiCertificate is one that was issued and stored.
type pkiCertificate struct {
	serial  string
	der     []byte
	number  *big.Int
	revoked time.Time // zero: not revoked
	issuer  string
}

// notBeforeMargin is how much older than its issue a certificate says it is.
const notBeforeMargin = 30 * time.Second

const noAIA = "This mount hasn't configured any authority information access (AIA) fields; this may make it harder for systems to find missing certificates in the chain or to validate revocation status of certificates. Consider updating /config/urls or the newly generated issuer with this information."

func (p *pki) exists(string) bool { return true }

func (p *pki) handle(req *request, sub string) (*response, error) {
	sub = strings.TrimSuffix(sub, "/")
	head, rest, _ := strings.Cut(sub, "/")
	write := req.op.write()
	switch {
	case strings.HasPrefix(sub, "root/generate/") && write:
		return p.generateRoot(req, strings.TrimPrefix(sub, "root/generate/"))
	case sub == "root" && req.op == opDelete:
		p.server.mu.Lock()
		defer p.server.mu.Unlock()
		p.issuers = nil
		return nil, nil
	case head == "roles":
		return p.roleAPI(req, rest)
	case head == "issue" && rest != "" && write:
		return p.issue(req, rest)
	case sub == "revoke" && write:
		return p.revoke(req)
	case slices.Contains([]string{"cert", "ca", "ca_chain", "crl"}, head) && req.op == opRead:
		return p.fetch(head, rest)
	case (sub == "certs" || sub == "certs/revoked") && req.op == opList:
		return p.listCertificates(sub == "certs/revoked"), nil
	case slices.Contains([]string{"issue", "revoke", "cert", "certs", "root"}, head):
		return nil, unsupportedOperation()
	}
	return nil, unsupportedPath()
}

// generateRoot makes a self-signed root. The first is what certificates are
// issued by; later ones are only answered.
func (p *pki) generateRoot(req *request, kind string) (*response, error) {
	s := p.server
	f := req.fields()
	name, asked := f.text("common_name"), f.seconds("ttl")
	spec := keySpec{kind: f.text("key_type"), bits: f.integer("key_bits")}
	if f.err != nil {
		return nil, f.err
	}
	if kind != "internal" && kind != "exported" {
		return nil, badRequest(fmt.Sprintf("invalid type %q: must be internal or exported", kind))
	}
	key, err := spec.generate()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	ttl := firstPositive(asked, p.mount.defaultTTL(s))
	var warnings []string
	if limit := p.mount.maxTTL(s); ttl > limit {
		warnings = append(warnings, fmt.Sprintf("TTL %q is longer than permitted maxTTL %q, so maxTTL is being used", ttl, limit))
		ttl = limit
	}
	template := &x509.Certificate{
		SerialNumber: randomSerial(), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-notBeforeMargin), NotAfter: now.Add(ttl),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, SubjectKeyId: keyID(key),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the root certificate: %w", err)
	}
	root := &issuer{id: randomUUID(), key: key}
	if root.certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("reading back the root certificate: %w", err)
	}
	p.issuers = append(p.issuers, root)
	p.store(&pkiCertificate{serial: serialText(template.SerialNumber), number: template.SerialNumber, der: der, issuer: root.id})
	if name == "" {
		warnings = append(warnings, "This issuer certificate was generated without a Subject; this makes it likely that issuing leaf certs with this certificate will cause TLS validation libraries to reject this certificate.")
	}
	data := map[string]any{
		"certificate": certificatePEM(der), "issuing_ca": certificatePEM(der), "serial_number": serialText(template.SerialNumber),
		"expiration": template.NotAfter.Unix(), "issuer_id": root.id, "issuer_name": "", "key_id": randomUUID(), "key_name": "",
	}
	if kind == "exported" {
		data["private_key"], data["private_key_type"] = spec.pem(key), spec.kindName()
	}
	return &response{data: data, warnings: append(warnings, noAIA)}, nil
}

func (p *pki) store(c *pkiCertificate) { p.certificates[c.serial] = c }

// revoke serves revoke: by serial number, or by the certificate itself.
func (p *pki) revoke(req *request) (*response, error) {
	f := req.fields()
	serial, text := f.text("serial_number"), f.text("certificate")
	if f.err != nil {
		return nil, f.err
	}
	if block, _ := pem.Decode([]byte(text)); serial == "" && block != nil {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			serial = serialText(c.SerialNumber)
		}
	}
	if serial == "" {
		return nil, badRequest("The serial number or certificate to revoke must be provided.")
	}
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	c := p.certificates[strings.ToLower(strings.ReplaceAll(serial, "-", ":"))]
	if c == nil {
		return nil, badRequest(fmt.Sprintf("certificate with serial %s not found.", serial))
	}
	if slices.ContainsFunc(p.issuers, func(i *issuer) bool { return i.certificate.SerialNumber.Cmp(c.number) == 0 }) {
		return nil, badRequest("adding issuer to the CRL is not allowed")
	}
	p.end(c)
	return &response{data: map[string]any{
		"revocation_time": c.revoked.Unix(), "revocation_time_rfc3339": c.revoked.UTC().Format(time.RFC3339Nano), "state": "revoked",
	}}, nil
}

// end revokes c, once. The caller holds s.mu.
func (p *pki) end(c *pkiCertificate) {
	if c.revoked.IsZero() {
		c.revoked = p.server.now()
	}
}

// fetch serves what needs no permission of a role: certificates, by serial
// number, and the authority's own, in JSON, PEM or DER.
func (p *pki) fetch(head, rest string) (*response, error) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	what := head
	if head == "cert" {
		what = rest
	}
	if (what == "ca" || what == "ca_chain" || what == "crl") && len(p.issuers) == 0 {
		if head == "cert" {
			return nil, badRequest("no default issuer currently configured")
		}
		return &response{status: http.StatusNoContent, raw: &rawBody{}}, nil
	}
	var der []byte
	var text string
	extra := map[string]any{"revocation_time": 0, "revocation_time_rfc3339": ""}
	switch what {
	case "ca", "ca_chain":
		der = p.issuers[0].certificate.Raw
		text = certificatePEM(der)
		if what == "ca_chain" {
			extra["ca_chain"] = text
		}
	case "crl":
		var err error
		if der, err = p.crl(); err != nil {
			return nil, err
		}
		text = strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})))
	default:
		c := p.certificates[strings.ToLower(strings.ReplaceAll(what, "-", ":"))]
		if c == nil {
			return nil, nil
		}
		text = certificatePEM(c.der)
		if !c.revoked.IsZero() {
			extra["revocation_time"], extra["revocation_time_rfc3339"] = c.revoked.Unix(), c.revoked.UTC().Format(time.RFC3339Nano)
			extra["issuer_id"] = c.issuer
		}
	}
	switch {
	case head == "cert":
		extra["certificate"] = text
		return &response{data: extra}, nil
	case rest == "pem" || head == "ca_chain":
		return &response{raw: &rawBody{contentType: "application/pem-certificate-chain", body: []byte(text)}}, nil
	case rest == "" && head == "ca":
		return &response{raw: &rawBody{contentType: "application/pkix-cert", body: der}}, nil
	case rest == "":
		return &response{raw: &rawBody{contentType: "application/pkix-crl", body: der}}, nil
	}
	return nil, unsupportedPath()
}

// crl is the list of what is revoked now. The caller holds s.mu.
func (p *pki) crl() ([]byte, error) {
	var entries []x509.RevocationListEntry
	for _, c := range p.certificates {
		if !c.revoked.IsZero() {
			entries = append(entries, x509.RevocationListEntry{SerialNumber: c.number, RevocationTime: c.revoked})
		}
	}
	p.crlNumber++
	now := p.server.now()
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(p.crlNumber), ThisUpdate: now, NextUpdate: now.Add(72 * time.Hour), RevokedCertificateEntries: entries,
	}, p.issuers[0].certificate, p.issuers[0].key)
	if err != nil {
		return nil, fmt.Errorf("making the CRL: %w", err)
	}
	return der, nil
}

func (p *pki) listCertificates(revoked bool) *response {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	var keys []string
	for serial, c := range p.certificates {
		if !revoked || !c.revoked.IsZero() {
			keys = append(keys, serial)
		}
	}
	return keysOf(keys)
}
