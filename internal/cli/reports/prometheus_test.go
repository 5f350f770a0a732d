package reports

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Responses of a Prometheus server, and of servers that are not Prometheus.
func TestPrometheus(t *testing.T) {
	vector := `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"rule_name":"team"},"value":[1435781451.781,"1.5"]},{"metric":{},"value":[1,"0"]}]}}`
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"a vector", vector, 200, ""},
		{"a mistake in the query", `{"status":"error","errorType":"bad_data","error":"parse error"}`, 400, `400 Bad Request: "parse error"`},
		{"a page", "<html>\x1b[2J", 200, `not a response of a Prometheus server (200 OK): "<html>\x1b[2J"`},
		{"other JSON", `{}`, 404, `not a response of a Prometheus server (404 Not Found): "{}"`},
		{"a matrix", `{"status":"success","data":{"resultType":"matrix","result":[]}}`, 200, `the response is a "matrix", not a vector`},
		{"no value", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}`, 200, "a sample in the response has no value"},
		{"no number", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"NaN"]}]}}`, 200, `a sample in the response is not a number: "NaN"`},
		{"too much", strings.Repeat(" ", maxAnswer+1), 200, "the answer is larger than 16 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/prefix/api/v1/query" || r.FormValue("query") != "a+b" || r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("%s asks %q as %q", r.URL, r.FormValue("query"), r.Header.Get("Authorization"))
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			token := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := prometheus{url: server.URL + "/prefix/", tokenFile: token}.query(t.Context(), "a+b")
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %s", err, c.want)
			case c.want == "" && (err != nil || len(got) != 2 || got[0].Value != 1.5 || got[0].Labels["rule_name"] != "team"):
				t.Errorf("%v %v", got, err)
			}
		})
	}
}
