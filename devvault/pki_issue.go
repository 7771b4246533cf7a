package devvault

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// issueRequest is what issue/:role is asked for.
type issueRequest struct {
	common      string
	dns         []string
	ips         []net.IP
	ttl         time.Duration
	format      string // "pem", "der", "pem_bundle"
	pkcs8, noCN bool
}

func (r *pkiRole) parse(req *request) (issueRequest, error) {
	f := req.fields()
	want := issueRequest{
		common: f.text("common_name"), dns: f.list("alt_names", true), ttl: f.seconds("ttl"), format: f.text("format"),
		pkcs8: f.text("private_key_format") == "pkcs8", noCN: f.boolean("exclude_cn_from_sans", false),
	}
	ips := f.list("ip_sans", true)
	if f.err != nil {
		return want, f.err
	}
	if want.format == "" {
		want.format = "pem"
	}
	switch {
	case !slices.Contains([]string{"pem", "der", "pem_bundle"}, want.format):
		return want, badRequest(`the "format" path parameter must be "pem", "der", or "pem_bundle"`)
	case want.common == "" && r.requireCN:
		return want, badRequest(`the common_name field is required, or must be provided in a CSR with "use_csr_common_name" set to true, unless "require_cn" is set to false`)
	case len(ips) > 0 && !r.ipSANs:
		return want, badRequest(fmt.Sprintf("IP Subject Alternative Names are not allowed in this role, but was provided %v", ips))
	}
	for _, text := range ips {
		ip := net.ParseIP(text)
		if ip == nil {
			return want, badRequest(fmt.Sprintf("the value %q is not a valid IP address", text))
		}
		want.ips = append(want.ips, ip)
	}
	return want, r.checkNames(want.common, want.dns)
}

// issue makes a key and a certificate, and a lease where the role says so.
func (p *pki) issue(req *request, name string) (*response, error) {
	s := p.server
	s.mu.Lock()
	role := p.roles[name]
	s.mu.Unlock()
	if role == nil {
		return nil, badRequest("unknown role: " + name)
	}
	want, err := role.parse(req)
	if err != nil {
		return nil, err
	}
	key, err := role.key.generate()
	if err != nil {
		return nil, err
	}
	issued, warnings, err := p.sign(role, want, key)
	if err != nil {
		return nil, err
	}
	resp := &response{data: issued.data(role, want, key), warnings: warnings}
	if !role.lease {
		return resp, nil
	}
	l := &lease{
		id: req.path + "/" + randomBase62(24), path: req.path, role: name, ttl: issued.left,
		credential: &pkiCredential{pki: p, serial: serialText(issued.certificate.SerialNumber)},
	}
	if err := s.grantLease(req, l); err != nil {
		return nil, err
	}
	resp.lease = &leaseAnswer{id: l.id, ttl: l.ttl}
	return resp, nil
}

// signed is a certificate fresh from its issuer.
type signed struct {
	certificate, issuer *x509.Certificate
	left                time.Duration // of its life, from now
}

func (p *pki) sign(role *pkiRole, want issueRequest, key crypto.Signer) (*signed, []string, error) {
	s := p.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p.issuers) == 0 {
		return nil, nil, listed(http.StatusInternalServerError, "could not fetch the CA certificate (was one set?): no default issuer currently configured")
	}
	ca := p.issuers[0]
	var warnings []string
	ttl, limit := firstPositive(want.ttl, role.ttl, p.mount.defaultTTL(s)), firstPositive(role.maxTTL, p.mount.maxTTL(s))
	if ttl > limit {
		if want.ttl > 0 {
			warnings = append(warnings, fmt.Sprintf("TTL %q is longer than permitted maxTTL %q, so maxTTL is being used", ttl, limit))
		}
		ttl = limit
	}
	now := s.now()
	template := &x509.Certificate{
		SerialNumber: randomSerial(), Subject: pkix.Name{CommonName: want.common}, NotBefore: now.Add(-role.notBefore), NotAfter: now.Add(ttl),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageKeyAgreement,
		DNSNames: want.dns, IPAddresses: want.ips, SubjectKeyId: keyID(key),
	}
	if want.common != "" && !want.noCN && !slices.Contains(want.dns, want.common) {
		template.DNSNames = append([]string{want.common}, want.dns...)
	}
	if role.server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if role.client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if template.NotAfter.After(ca.certificate.NotAfter) {
		return nil, nil, badRequest(fmt.Sprintf("cannot satisfy request, as TTL would result in notAfter of %s that is beyond the expiration of the CA certificate at %s",
			template.NotAfter.UTC().Format(time.RFC3339Nano), ca.certificate.NotAfter.UTC().Format(time.RFC3339Nano)))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate: %w", err)
	}
	out := &signed{issuer: ca.certificate}
	if out.certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, nil, fmt.Errorf("reading back a certificate: %w", err)
	}
	// A certificate's times are whole seconds, so it can live a little less
	// than was asked for.
	out.left = out.certificate.NotAfter.Sub(now).Truncate(time.Second)
	if !role.noStore {
		p.store(&pkiCertificate{serial: serialText(template.SerialNumber), number: template.SerialNumber, der: der, issuer: ca.id})
	}
	return out, warnings, nil
}

func (g *signed) data(role *pkiRole, want issueRequest, key crypto.Signer) map[string]any {
	private := role.key.block(key, want.pkcs8)
	data := map[string]any{
		"serial_number": serialText(g.certificate.SerialNumber), "private_key_type": role.key.kindName(),
		"expiration": g.certificate.NotAfter.Unix(), "not_before": g.certificate.NotBefore.Unix(),
	}
	if want.format == "der" {
		encode := base64.StdEncoding.EncodeToString
		data["certificate"], data["issuing_ca"] = encode(g.certificate.Raw), encode(g.issuer.Raw)
		data["ca_chain"], data["private_key"] = []string{encode(g.issuer.Raw)}, encode(private.Bytes)
		return data
	}
	certificate, ca := certificatePEM(g.certificate.Raw), certificatePEM(g.issuer.Raw)
	keyText := strings.TrimSpace(string(pem.EncodeToMemory(private)))
	data["certificate"], data["issuing_ca"], data["ca_chain"], data["private_key"] = certificate, ca, []string{ca}, keyText
	if want.format == "pem_bundle" {
		data["certificate"] = strings.Join([]string{keyText, certificate, ca}, "\n")
	}
	return data
}

// pkiCredential is a certificate with a lease. It cannot be renewed; its end
// is its revocation.
type pkiCredential struct {
	pki    *pki
	serial string
}

func (c *pkiCredential) renewal() (grant, func(context.Context, time.Time) error, error) {
	return grant{}, nil, badRequest("lease is not renewable")
}

func (c *pkiCredential) ending() func(context.Context) error {
	return func(context.Context) error {
		c.pki.server.mu.Lock()
		defer c.pki.server.mu.Unlock()
		if stored := c.pki.certificates[c.serial]; stored != nil {
			c.pki.end(stored)
		}
		return nil
	}
}
