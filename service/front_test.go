package service_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/api"
)

// freeAddress gives an address that nobody listens on, for what is asked before
// the page is there.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func problemsOf(list []api.NotReady) (out []string) {
	for _, p := range list {
		out = append(out, p.Problem)
	}
	return out
}

// TestReadyz_TellsHolderAndStandbyAndWhatIsMissing: both are ready; without NATS
// none is, and each lives; when it is back they are ready again.
func TestReadyz_TellsHolderAndStandbyAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.more = "http: {listen: 127.0.0.1:0}\n"
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	holder, _ := r.servePage("state-a")
	r.await("a lease", func() bool { return r.active("app") != 0 })
	standby, _ := r.servePage("state-b")
	for role, url := range map[string]string{api.RoleLeader: holder(), api.RoleStandby: standby()} {
		r.await("the "+role+" to be ready", func() bool {
			all, status := ask[api.Ready](plainClient, url+"/readyz")
			one, statusOne := ask[api.ScopeReady](plainClient, url+"/readyz/prod")
			return status == 200 && all.Ready && all.Scopes["prod"].Role == role && statusOne == 200 && one.Ready && one.Role == role
		})
		if live, status := ask[api.Live](plainClient, url+"/livez"); status != 200 || !live.Live {
			t.Errorf("the %s: %d, %+v", role, status, live)
		}
		unknown, status := ask[api.Problem](plainClient, url+"/readyz/nowhere")
		if status != 404 || !slices.Equal(unknown.Names, []string{"prod"}) || unknown.Code != api.CodeUnknownScope {
			t.Errorf("an unknown scope: %d, %+v", status, unknown)
		}
	}
	r.nats.Stop()
	for _, url := range []string{holder(), standby()} {
		r.await("it to miss NATS", func() bool {
			is, status := ask[api.Ready](plainClient, url+"/readyz")
			one, statusOne := ask[api.ScopeReady](plainClient, url+"/readyz/prod")
			return status == 503 && !is.Ready && slices.Contains(problemsOf(is.Problems), api.NotReadyDisconnected) &&
				statusOne == 503 && slices.Contains(problemsOf(one.Problems), api.NotReadyDisconnected)
		})
		if live, status := ask[api.Live](plainClient, url+"/livez"); status != 200 || !live.Live {
			t.Errorf("without NATS: %d, %+v", status, live)
		}
	}
	if err := r.nats.Start(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{holder(), standby()} {
		r.await("it to be ready again", func() bool { _, status := ask[api.Ready](plainClient, url+"/readyz"); return status == 200 })
	}
}

// TestReadyz_AnotherSealKeyIsNotReady: such an instance never claims.
func TestReadyz_AnotherSealKeyIsNotReady(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.more = "http: {listen: 127.0.0.1:0}\n"
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	r.servePage("state-a")
	r.await("a lease", func() bool { return r.active("app") != 0 })
	seed, err := handover.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	r.write("seal.key", seed.Reveal())
	url, _ := r.servePage("state-b")
	r.await("it to say so", func() bool {
		is, status := ask[api.ScopeReady](plainClient, url()+"/readyz/prod")
		return status == 503 && is.Role == api.RoleStandby && len(is.Problems) > 0 && !slices.Contains(problemsOf(is.Problems), api.NotReadyStarting) &&
			slices.ContainsFunc(is.Problems, func(p api.NotReady) bool { return p.Detail != "" })
	})
	got := r.until(url(), "the metrics to say so", map[string]string{`leasesvc_scope_ready{scope="prod"}`: "0"})
	if got[`leasesvc_scope_leading{scope="prod"}`] != 0 {
		t.Error("it leads")
	}
}

// TestProbes_AnswerBeforeNATSIsThere: the process lives, and is not ready.
func TestProbes_AnswerBeforeNATSIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	at := freeAddress(t)
	r.more = "http: {listen: \"" + at + "\"}\n"
	r.definitions(1, "  {}\n")
	r.nats.Stop()
	svc, err := service.New(r.config("state-a"), service.Options{Version: "1.2.3", OnHTTP: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	url := "http://" + at
	r.await("the probes", func() bool { _, status := ask[api.Live](plainClient, url+"/livez"); return status == 200 })
	is, status := ask[api.Ready](plainClient, url+"/readyz")
	if status != 503 || !slices.Equal(problemsOf(is.Problems), []string{api.NotReadyStarting}) || is.Scopes["prod"].Ready {
		t.Errorf("%d, %+v", status, is)
	}
	for _, path := range []string{"/status", "/leases", "/events", "/"} {
		if _, status := ask[api.Problem](plainClient, url+path); status != 503 {
			t.Errorf("%s: %d", path, status)
		}
	}
	got, _ := scrape(t, url)
	if got[`leasesvc_nats_connected`] != 0 || got[`leasesvc_scope_ready{scope="prod"}`] != 0 || got[`leasesvc_vault_out{connection="main"}`] != 0 {
		t.Errorf("%v", got)
	}
	if err := r.nats.Start(); err != nil {
		t.Fatal(err)
	}
	r.await("it to be ready", func() bool { _, status := ask[api.Ready](plainClient, url+"/readyz"); return status == 200 })
}

// TestLivez_TellsALoopThatIsStuck and which one; it lives again when it is not.
func TestLivez_TellsALoopThatIsStuck(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.more = "http: {listen: 127.0.0.1:0}\n"
	r.definitions(1, "  {}\n")
	var svc *service.Service
	r.before = func(s *service.Service) {
		service.StuckAfter(s, 500*time.Millisecond)
		svc = s
	}
	url, _ := r.servePage("state-a")
	r.await("it to lead", func() bool {
		is, _ := ask[api.ScopeReady](plainClient, url()+"/readyz/prod")
		return is.Role == api.RoleLeader
	})
	release, decided := make(chan struct{}), make(chan error, 1)
	go func() {
		decided <- service.Decide(context.Background(), svc, "prod", leasecore.Tick{}, func(*leasecore.State) { <-release })
	}()
	r.await("the stuck loop to show", func() bool {
		live, status := ask[api.Live](plainClient, url()+"/livez")
		return status == 503 && !live.Live && len(live.Stuck) == 1 && live.Stuck[0].Scope == "prod" && live.Stuck[0].Loop == "decide"
	})
	// A scrape waits for nobody.
	if got, _ := scrape(t, url()); got["leasesvc_loop_stuck"] != 1 || got[`leasesvc_scope_leading{scope="prod"}`] != 1 {
		t.Error("the scrape does not say that the loop is stuck")
	}
	close(release)
	if err := <-decided; err != nil {
		t.Fatal(err)
	}
	r.await("it to live", func() bool { _, status := ask[api.Live](plainClient, url()+"/livez"); return status == 200 })
}

// TestState_IsAnsweredByHolderAndStandby: the same table and status as over NATS.
func TestState_IsAnsweredByHolderAndStandby(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.more = "http: {listen: 127.0.0.1:0}\n"
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	holder, _ := r.servePage("state-a")
	r.await("a lease", func() bool { return r.active("app") != 0 })
	standby, _ := r.servePage("state-b")
	over, err := r.api().Leases(context.Background(), "prod")
	if err != nil {
		t.Fatal(err)
	}
	for role, url := range map[string]string{api.RoleLeader: holder(), api.RoleStandby: standby()} {
		r.await("the "+role+"'s state", func() bool {
			is, status := ask[api.InstanceStatus](plainClient, url+"/status")
			tables, statusTables := ask[api.Tables](plainClient, url+"/leases?scope=prod&name=app")
			return status == 200 && is.Ready && is.Connected && len(is.Scopes) == 1 && is.Scopes[0].Role == role && is.Scopes[0].Holder != "" &&
				is.Scopes[0].Status.Names == 1 && is.Scopes[0].Status.Usable == 1 && is.Scopes[0].Status.Epoch > 0 && is.Log != nil && len(is.Vaults) == 1 &&
				statusTables == 200 && len(tables.Scopes) == 1 && len(tables.Scopes[0].Names) == 1 && tables.Scopes[0].Names[0].LeaseID == over.Names[0].LeaseID
		})
		r.await("the "+role+"'s events", func() bool {
			all, status := ask[api.Events](plainClient, url+"/events")
			one, statusOne := ask[api.Events](plainClient, url+"/events?name=app&type=installed")
			return status == 200 && len(all.Events) > 4 && slices.IsSortedFunc(all.Events, func(a, b api.EventLine) int { return int(a.Seq) - int(b.Seq) }) &&
				statusOne == 200 && len(one.Events) == 1 && one.Events[0].Type == "installed" && one.Events[0].Actor != "" && one.Events[0].Epoch > 0
		})
	}
	page, _ := ask[api.Events](plainClient, holder()+"/events?limit=2")
	if len(page.Events) != 2 || page.Complete {
		t.Errorf("limit=2 gives %d events, complete: %v", len(page.Events), page.Complete)
	}
	rest, _ := ask[api.Events](plainClient, fmt.Sprintf("%s/events?after=%d", holder(), page.Events[0].Seq))
	if len(rest.Events) == 0 || rest.Events[0].Seq != page.Events[1].Seq {
		t.Errorf("after=%d gives %+v", page.Events[0].Seq, rest.Events)
	}
	for path, want := range map[string]int{
		"/leases?scope=nowhere": 404, "/leases?name=nobody": 404, "/events?name=nobody": 404, "/status?scope=nowhere": 404,
		"/events?limit=x": 400, "/events?after=-1": 400, "/leases?nam=app": 400, "/events?since=1h": 400, "/status/": 404, "/metrics/x": 404,
	} {
		if p, status := ask[api.Problem](plainClient, holder()+path); status != want {
			t.Errorf("%s: %d %+v, not %d", path, status, p, want)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/readyz/prod", "/metrics", "/status", "/leases", "/events"} {
		for method, want := range map[string]int{http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405, http.MethodOptions: 405} {
			q, err := http.NewRequest(method, holder()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := plainClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(got.Body)
			_ = got.Body.Close()
			if got.StatusCode != want || method == http.MethodHead && len(body) > 0 || want == 405 && got.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, %d bytes", method, path, got.StatusCode, len(body))
			}
		}
	}
	// A page of somebody else's whose name was pointed here.
	for path, want := range map[string]int{"/metrics": 403, "/status": 403, "/leases": 403, "/events": 403, "/livez": 200, "/readyz": 200} {
		q, err := http.NewRequest(http.MethodGet, holder()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = "rebound.example"
		got, err := plainClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != want {
			t.Errorf("%s by another host's name: %d, not %d", path, got.StatusCode, want)
		}
	}
}

// TestLogin_GuardsAllButTheProbes: with a token, and with certificates alone.
func TestLogin_GuardsAllButTheProbes(t *testing.T) {
	t.Parallel()
	for what, token := range map[string]string{"a token or a certificate": "the token of this test", "a certificate alone": ""} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "1h", "2h")
			r.definitions(1, "  {}\n")
			cert, key, pool, _ := r.certificate("page", false)
			clientCA, _, _, pair := r.certificate("operator", true)
			file := ""
			if token != "" {
				file = ", token_file: " + r.write("page.token", token+"\n")
			}
			r.more = "http: {listen: 0.0.0.0:0, tls: {cert: " + cert + ", key: " + key + ", client_ca: " + clientCA + "}" + file + "}\n"
			url, _ := r.servePage("state-a")
			_, port, err := net.SplitHostPort(strings.TrimPrefix(url(), "https://"))
			if err != nil {
				t.Fatal(err)
			}
			client := func(certificates ...tls.Certificate) *http.Client {
				return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
					DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates},
				}}
			}
			get := func(c *http.Client, path, bearer string) (int, string) {
				q, err := http.NewRequest(http.MethodGet, "https://127.0.0.1:"+port+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if bearer != "" {
					q.Header.Set("Authorization", "Bearer "+bearer)
				}
				got, err := c.Do(q)
				if err != nil {
					return 0, err.Error()
				}
				defer func() { _ = got.Body.Close() }()
				b, _ := io.ReadAll(got.Body)
				return got.StatusCode, string(b)
			}
			r.await("it to be ready", func() bool { status, _ := get(client(), "/readyz", ""); return status == 200 })
			for _, path := range []string{"/metrics", "/status", "/leases", "/events"} {
				if status, body := get(client(), path, ""); status != 401 || strings.Contains(body, "prod") {
					t.Errorf("%s for nobody: %d %s", path, status, body)
				}
				if status, _ := get(client(pair), path, ""); status != 200 {
					t.Errorf("%s with a certificate: %d", path, status)
				}
				if token == "" {
					continue
				}
				if status, _ := get(client(), path, token); status != 200 {
					t.Errorf("%s with the token: %d", path, status)
				}
				if status, _ := get(client(), path, "another token than that"); status != 401 {
					t.Errorf("%s with another token: %d", path, status)
				}
			}
			if status, _ := get(client(), "/livez", ""); status != 200 {
				t.Errorf("/livez for nobody: %d", status)
			}
			// What is wrong is told to everybody in words of ours alone.
			r.nats.Stop()
			r.await("it to miss NATS", func() bool { status, _ := get(client(), "/readyz", ""); return status == 503 })
			var bare, full api.Ready
			_, body := get(client(), "/readyz", "")
			if err := json.Unmarshal([]byte(body), &bare); err != nil {
				t.Fatal(err)
			}
			for _, p := range append(bare.Problems, bare.Scopes["prod"].Problems...) {
				if p.Detail != "" || p.Problem == "" {
					t.Errorf("everybody is told %+v", p)
				}
			}
			_, body = get(client(pair), "/readyz", "")
			if err := json.Unmarshal([]byte(body), &full); err != nil || len(full.Problems) == 0 {
				t.Errorf("who may look is told %s, %v", body, err)
			}
			if err := r.nats.Start(); err != nil { // so that it can be stopped in good order
				t.Fatal(err)
			}
		})
	}
}

// TestReadyz_AStandbyThatIsBehindIsNotReady, and one that caught up is.
func TestReadyz_AStandbyThatIsBehindIsNotReady(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("app") != 0 })
	r.more = "http: {listen: 127.0.0.1:0}\n"
	hold := make(chan struct{})
	r.before = func(s *service.Service) { service.HoldFeedsBack(s, func() { <-hold }) }
	url, _ := r.servePage("state-b")
	free := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(free) // before the instance is stopped
	r.await("it to be behind", func() bool {
		is, status := ask[api.ScopeReady](plainClient, url()+"/readyz/prod")
		return status == 503 && slices.Contains(problemsOf(is.Problems), api.NotReadyBehind)
	})
	free()
	r.await("it to have caught up", func() bool { _, status := ask[api.ScopeReady](plainClient, url()+"/readyz/prod"); return status == 200 })
}

// TestAScopeIsLookedAtWhileItIsTaken: what its log said until then is told while a
// term folds the rest of it (a finding of the race detector).
func TestAScopeIsLookedAtWhileItIsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	hold, looks := make(chan struct{}), sync.WaitGroup{}
	r.before = func(s *service.Service) {
		service.HoldFeedsBack(s, func() { <-hold }) // so that the term reads it by itself
		for range 2 {
			looks.Go(func() {
				for {
					select {
					case <-hold:
						return
					default:
						service.LookAt(s, "prod")
					}
				}
			})
		}
	}
	free := sync.OnceFunc(func() { close(hold) })
	defer looks.Wait()
	defer free()
	_, stop := r.start("state-a")
	r.await("a term", func() bool { return strings.Contains(r.out.String(), "msg=leading") })
	free()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestReadyz_AScopeThatWasShutDownIsNotReady: it says so, and that it lives.
func TestReadyz_AScopeThatWasShutDownIsNotReady(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.more = "http: {listen: 127.0.0.1:0}\n"
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	url, _ := r.servePage("state-a")
	r.await("a lease", func() bool { return r.active("app") != 0 })
	r.done(r.api().Shutdown(context.Background(), "prod"))
	r.await("it to say so", func() bool {
		is, status := ask[api.ScopeReady](plainClient, url()+"/readyz/prod")
		return status == 503 && slices.Contains(problemsOf(is.Problems), api.NotReadyShutDown)
	})
	if _, status := ask[api.Live](plainClient, url()+"/livez"); status != 200 {
		t.Errorf("/livez: %d", status)
	}
	r.until(url(), "the metrics", map[string]string{
		`leasesvc_scope_leading{scope="prod"}`:                           "0",
		`leasesvc_scope_blocked{scope="prod"}`:                           "1",
		`leasesvc_scope_terms_ended_total{scope="prod",why="shut-down"}`: "1",
	})
}
