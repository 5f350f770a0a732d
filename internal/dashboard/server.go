package dashboard

import (
	"cmp"
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"time"

	"golang.org/x/net/netutil"
)

//go:embed assets
var embedded embed.FS

// The limits for a client.
const (
	maxHeader      = 32 << 10 // bytes, since tokens of identity providers are long
	maxConnections = 256
	maxStreams     = 20 // on one connection at the same time
	maxAnswers     = 16 // computed at the same time
)

// contentPolicy is the Content-Security-Policy: scripts, styles and data from this server only, and no HTML from text.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Handler answers the page's requests.
func (d *Dashboard) Handler() http.Handler {
	mux := http.NewServeMux()
	api := d.api()
	mux.Handle("GET /api/v1/", api)
	mux.Handle("POST "+impactPath, api)
	mux.HandleFunc("GET /", asset)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if status, why := d.refuse(r); why != "" {
			if status == http.StatusMethodNotAllowed {
				allowed := "GET, HEAD"
				if d.posts(r) {
					allowed = "POST"
				}
				w.Header().Set("Allow", allowed)
			}
			http.Error(w, why, status)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// types are the content types of the assets, by file extension.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// asset serves a file of the page.
func asset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	text, err := embedded.ReadFile("assets/" + cmp.Or(name, "index.html"))
	if err != nil {
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", types[path.Ext(cmp.Or(name, ".html"))])
	_, _ = w.Write(text)
}

// secure sets the headers that restrict browsers to what the page needs.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
}

// refuse returns the reason why a request is rejected without evaluation; "" if it is not.
func (d *Dashboard) refuse(r *http.Request) (status int, why string) {
	posts := d.posts(r)
	switch {
	case posts && r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, "policies are sent with POST"
	case !posts && r.Method != http.MethodGet && r.Method != http.MethodHead:
		return http.StatusMethodNotAllowed, "the dashboard only reads"
	case !posts && r.ContentLength != 0:
		return http.StatusRequestEntityTooLarge, "requests have no body"
	case len(r.URL.RawQuery) > maxQuery:
		return http.StatusRequestURITooLong, "the query is too long"
	case d.o.Tokens == nil && !loopback(r.Host):
		// Another site could let its name resolve to 127.0.0.1, and would then have the same origin.
		return http.StatusMisdirectedRequest, "without tokens the dashboard answers to localhost, 127.0.0.1 and [::1] only"
	case strings.HasPrefix(r.URL.Path, "/api/") && foreign(r.Header.Get("Sec-Fetch-Site")):
		return http.StatusForbidden, "the dashboard only answers its own page"
	case posts && origins.Check(r) != nil:
		return http.StatusForbidden, "the dashboard only evaluates policies from its own page"
	case posts && !isJSON(r.Header.Get("Content-Type")):
		// A form on another site cannot send this type without a preflight request.
		return http.StatusUnsupportedMediaType, "the content type must be application/json"
	}
	return 0, ""
}

// impactPath is the only path that accepts a body.
const impactPath = "/api/v1/impact"

// posts reports whether the request is for the path that evaluates policies.
func (d *Dashboard) posts(r *http.Request) bool { return d.evaluates() && r.URL.Path == impactPath }

// origins compares the site in a browser's Sec-Fetch-Site or Origin header with the host of the request.
var origins = http.NewCrossOriginProtection()

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// loopback reports whether a Host header, or an address with its port, names the loopback interface.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// foreign reports whether a browser marks the request as coming from another site.
func foreign(site string) bool { return site != "" && site != "same-origin" && site != "none" }

// Serve serves on l until ctx is done; over TLS if t is set. Without tokens it refuses a listener that others than this host can reach.
func (d *Dashboard) Serve(ctx context.Context, l net.Listener, t *tls.Config) error {
	if d.o.Tokens == nil && !loopback(l.Addr().String()) {
		return fmt.Errorf("serve the dashboard: without tokens it is served on loopback only, not on %s", l.Addr())
	}
	s := &http.Server{
		Handler: d.Handler(), TLSConfig: t, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: answerFor + 15*time.Second, IdleTimeout: time.Minute,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog: slog.NewLogLogger(d.o.Log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	l = netutil.LimitListener(l, maxConnections)
	var err error
	if t != nil {
		err = s.ServeTLS(l, "", "")
	} else {
		err = s.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the dashboard: %w", err)
}
