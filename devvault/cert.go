package devvault

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"slices"
	"strings"
)

// certMethod is a TLS certificate method. Its state is guarded by Server.mu.
type certMethod struct {
	server *Server
	mount  *mount
	roles  map[string]*certRole
}

// certRole is what auth/cert/certs/:name keeps: a certificate, or the
// authority of certificates, that may log in.
type certRole struct {
	params                       tokenParams
	display                      string
	pem                          string
	trusted                      []*x509.Certificate
	commonNames, dnsNames, names []string // patterns; empty allows all
}

func (c *certMethod) open(sub string) bool { return sub == "login" }

func (c *certMethod) exists(sub string) bool {
	name, ok := strings.CutPrefix(sub, "certs/")
	return !ok || c.roles[strings.ToLower(name)] != nil
}

// renewal wants the very certificate that logged in on the connection of the
// renewal: one that was made anew since must log in anew.
func (c *certMethod) renewal(t *token, req *request) (tokenParams, error) {
	role := c.roles[t.login.role]
	if role == nil {
		return tokenParams{}, roleGone(t.login.role)
	}
	if _, _, err := c.match(req, t.login.role); err != nil {
		return tokenParams{}, err
	}
	if !bytes.Equal(req.certificates[0].Raw, t.login.certificate) {
		return tokenParams{}, listed(http.StatusInternalServerError, "failed to renew entry: client identity during renewal not matching client identity used during login")
	}
	return role.params, nil
}

func (c *certMethod) handle(req *request, sub string) (*response, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	sub = strings.TrimSuffix(sub, "/")
	name, isRole := strings.CutPrefix(sub, "certs/")
	switch {
	case sub == "login" && req.op.write():
		return c.logIn(req)
	case sub == "certs" && (req.op == opList || req.op == opRead):
		return keysOf(mapKeys(c.roles)), nil
	case isRole:
		return c.roleAPI(req, strings.ToLower(name))
	case sub == "login" || sub == "certs":
		return nil, unsupportedOperation()
	}
	return nil, unsupportedPath()
}

func (c *certMethod) roleAPI(req *request, name string) (*response, error) {
	role := c.roles[name]
	switch {
	case req.op == opRead:
		if role == nil {
			return nil, nil
		}
		data := map[string]any{
			"certificate": role.pem, "display_name": role.display, "allowed_common_names": nil, "allowed_dns_sans": nil, "allowed_names": nil,
			"allowed_email_sans": nil, "allowed_uri_sans": nil, "allowed_organizational_units": nil, "allowed_metadata_extensions": nil,
			"required_extensions": nil, "ocsp_ca_certificates": "", "ocsp_enabled": false, "ocsp_fail_open": false,
			"ocsp_query_all_servers": false, "ocsp_servers_override": nil,
		}
		for field, patterns := range map[string][]string{"allowed_common_names": role.commonNames, "allowed_dns_sans": role.dnsNames, "allowed_names": role.names} {
			if patterns != nil {
				data[field] = patterns
			}
		}
		role.params.fill(data)
		return &response{data: data}, nil
	case req.op.write():
		return c.writeRole(req, name)
	case req.op == opDelete:
		delete(c.roles, name)
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (c *certMethod) writeRole(req *request, name string) (*response, error) {
	next := certRole{display: name}
	if before := c.roles[name]; before != nil {
		next = *before
	}
	f := req.fields()
	if req.has("certificate") {
		next.pem = f.text("certificate")
		next.trusted = nil
		for rest := []byte(next.pem); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if parsed, err := x509.ParseCertificate(block.Bytes); err == nil {
				next.trusted = append(next.trusted, parsed)
			}
		}
	}
	if req.has("display_name") {
		next.display = f.text("display_name")
	}
	for field, at := range map[string]*[]string{"allowed_common_names": &next.commonNames, "allowed_dns_sans": &next.dnsNames, "allowed_names": &next.names} {
		if req.has(field) {
			*at = f.list(field, true)
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	if err := next.params.update(req, "policies", "ttl", "max_ttl", "period"); err != nil {
		return nil, err
	}
	if len(next.trusted) == 0 {
		return nil, badRequest("failed to parse certificate")
	}
	if leaf := next.trusted[0]; !leaf.IsCA && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return nil, badRequest("nonCA certificates should have TLS client authentication set as an extended key usage")
	}
	c.roles[name] = &next
	return nil, nil
}

// match finds the role that lets the client's certificate in; only is its
// name, or empty for any.
func (c *certMethod) match(req *request, only string) (string, *certRole, error) {
	if len(req.certificates) == 0 {
		return "", nil, badRequest("no client certificate found")
	}
	names := mapKeys(c.roles)
	slices.Sort(names)
	trusted := false
	for _, name := range names {
		role := c.roles[name]
		if only != "" && name != only || !c.trusts(role, req.certificates) {
			continue
		}
		trusted = true
		if role.allows(req.certificates[0]) {
			return name, role, nil
		}
	}
	if trusted {
		return "", nil, badRequest("no chain matching all constraints could be found for this login certificate")
	}
	return "", nil, badRequest("invalid certificate or no client certificate supplied")
}

func (c *certMethod) trusts(role *certRole, chain []*x509.Certificate) bool {
	if !role.trusted[0].IsCA {
		return bytes.Equal(role.trusted[0].Raw, chain[0].Raw)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, r := range role.trusted {
		roots.AddCert(r)
	}
	for _, i := range chain[1:] {
		between.AddCert(i)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: c.server.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}

func (r *certRole) allows(leaf *x509.Certificate) bool {
	fits := func(patterns []string, of ...string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(of, func(n string) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { return globMatch(p, n) })
		})
	}
	return fits(r.commonNames, leaf.Subject.CommonName) && fits(r.dnsNames, leaf.DNSNames...) &&
		fits(r.names, append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)...)
}

func (c *certMethod) logIn(req *request) (*response, error) {
	f := req.fields()
	only := strings.ToLower(f.text("name"))
	if f.err != nil {
		return nil, f.err
	}
	name, role, err := c.match(req, only)
	if err != nil {
		return nil, err
	}
	leaf := req.certificates[0]
	return c.server.logIn(req, role.params, identity{
		login: login{mount: c.mount, role: name, certificate: leaf.Raw}, display: role.display,
		meta: map[string]string{
			"cert_name": name, "common_name": leaf.Subject.CommonName, "serial_number": leaf.SerialNumber.String(),
			"subject_key_id": colons(leaf.SubjectKeyId), "authority_key_id": colons(leaf.AuthorityKeyId),
		},
	})
}

// colons prints bytes in hexadecimal, separated by colons.
func colons(b []byte) string {
	parts := make([]string, len(b))
	for i := range b {
		parts[i] = hex.EncodeToString(b[i : i+1])
	}
	return strings.Join(parts, ":")
}
