package keys

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

const (
	googleService  = "Google Cloud KMS"
	googleAPI      = "https://cloudkms.googleapis.com/v1/"
	googleScope    = "https://www.googleapis.com/auth/cloudkms"
	googleVersions = 20 // the maximum number of versions of a key that are read
)

var googleKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(projects/[\w.:-]+/locations/[\w-]+/keyRings/[\w-]+/cryptoKeys/[\w-]+)(?:/(?:cryptoKeyVersions|versions)/(\d+))?$`)
})

// google reads keys of Google Cloud KMS: gcpkms://projects/⟨p⟩/locations/⟨l⟩/keyRings/⟨r⟩/cryptoKeys/⟨k⟩[/cryptoKeyVersions/⟨v⟩].
// Without a version, it reads all enabled versions. It logs in with the application default credentials: the file that
// GOOGLE_APPLICATION_CREDENTIALS names, or the metadata server (workload identity).
func (r *Resolver) google(ctx context.Context, ref string, transport http.RoundTripper) ([]crypto.PublicKey, error) {
	parts := googleKey().FindStringSubmatch(strings.TrimPrefix(ref, "gcpkms://"))
	if parts == nil {
		return nil, errors.New("it does not have the form gcpkms://projects/⟨project⟩/locations/⟨location⟩/keyRings/⟨ring⟩/cryptoKeys/⟨key⟩/cryptoKeyVersions/⟨version⟩")
	}
	token, err := r.googleToken(ctx)
	if err != nil {
		return nil, err
	}
	get := func(path string, into any) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, googleAPI+path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		return sendJSON(req, transport, googleService, into)
	}
	versions := []string{parts[1] + "/cryptoKeyVersions/" + parts[2]}
	if parts[2] == "" {
		if versions, err = enabledVersions(parts[1], get); err != nil {
			return nil, err
		}
	}
	var out []crypto.PublicKey
	for _, v := range versions {
		var answer struct {
			PEM string `json:"pem"`
		}
		if err := get(v+"/publicKey", &answer); err != nil {
			return nil, err
		}
		key, err := r.parsed.key(answer.PEM)
		if err != nil {
			return nil, err
		}
		out = append(out, key)
	}
	return out, nil
}

// enabledVersions returns the names of the enabled versions of a key, the newest first.
func enabledVersions(key string, get func(string, any) error) ([]string, error) {
	var answer struct {
		Versions []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		} `json:"cryptoKeyVersions"`
	}
	query := url.Values{"filter": {"state=ENABLED"}, "pageSize": {"200"}}
	if err := get(key+"/cryptoKeyVersions?"+query.Encode(), &answer); err != nil {
		return nil, err
	}
	var numbers []int
	for _, v := range answer.Versions {
		number, named := strings.CutPrefix(v.Name, key+"/cryptoKeyVersions/")
		if n, err := strconv.Atoi(number); named && err == nil && (v.State == "" || v.State == "ENABLED") {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	slices.Reverse(numbers)
	var out []string
	for _, n := range numbers[:min(len(numbers), googleVersions)] {
		out = append(out, fmt.Sprintf("%s/cryptoKeyVersions/%d", key, n))
	}
	return out, nil
}

func (r *Resolver) googleToken(ctx context.Context) (string, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: r.options.Operator})
	credentials, err := google.FindDefaultCredentials(ctx, googleScope)
	if err != nil {
		return "", errors.New("there are no credentials for Google Cloud: neither a metadata server nor GOOGLE_APPLICATION_CREDENTIALS provides any")
	}
	token, err := credentials.TokenSource.Token()
	if err != nil {
		return "", errors.New("Google Cloud returned no token" + tokenCode(err))
	}
	return token.AccessToken, nil
}

// tokenCode returns the error code of a token server, without its text, which may contain parts of the request.
func tokenCode(err error) string {
	if e := (*oauth2.RetrieveError)(nil); errors.As(err, &e) && e.Response != nil {
		if c := codeOf(e.Body); c != "" {
			return ": " + c
		}
		return ": " + strconv.Itoa(e.Response.StatusCode)
	}
	return ""
}
