package keys

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"

	"ephor.invalid/ephor/internal/fetch"
)

const awsService = "AWS KMS"

var (
	awsKey = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(alias/[\w/-]+|(?:mrk-)?[0-9a-f-]{32,36}|arn:aws[\w-]*:kms:([a-z0-9-]+):\d{12}:(?:key|alias)/[\w/-]+)$`)
	})
	awsHost = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9.-]+(:\d+)?$`)
	})
	awsRegion = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z0-9-]+$`)
	})
)

// aws reads a key of AWS KMS: awskms://[⟨host⟩]/⟨id, ARN, alias/⟨name⟩, or ARN of an alias⟩. It logs in as the AWS SDK does: environment
// variables, web identity (IRSA), Pod Identity, metadata service. It sends the only request itself, since the SDK's client is much larger.
func (r *Resolver) aws(ctx context.Context, ref string, transport http.RoundTripper) ([]crypto.PublicKey, error) {
	host, id, _ := strings.Cut(strings.TrimPrefix(ref, "awskms://"), "/")
	parts := awsKey().FindStringSubmatch(id)
	if parts == nil || host != "" && !awsHost().MatchString(host) {
		return nil, errors.New("it does not have the form awskms:///⟨key id, ARN or alias/⟨name⟩⟩")
	}
	var how []func(*config.LoadOptions) error
	if !r.unset { // the SDK's client uses the certificates in AWS_CA_BUNDLE
		how = append(how, config.WithHTTPClient(&http.Client{Transport: r.options.Operator}))
	}
	settings, err := config.LoadDefaultConfig(ctx, how...)
	if err != nil {
		return nil, errors.New("the settings of AWS cannot be read: check the environment and the files of AWS")
	}
	region := first(parts[2], settings.Region)
	if !awsRegion().MatchString(region) {
		return nil, errors.New("the region is unknown: set AWS_REGION, or name the key by its ARN")
	}
	if own := strings.TrimSuffix(strings.TrimPrefix(os.Getenv("AWS_ENDPOINT_URL_KMS"), "https://"), "/"); host == "" && own != "" {
		if !awsHost().MatchString(own) {
			return nil, errors.New("AWS_ENDPOINT_URL_KMS does not name a host over https")
		}
		host = own
	}
	if host == "" {
		host = "kms." + region + "." + awsDomain(region)
	}
	credentials, err := settings.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, errors.New("there are no credentials for AWS: check the ServiceAccount's role, or the environment")
	}
	text, err := json.Marshal(map[string]string{"KeyId": id})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+host+"/", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "TrentService.GetPublicKey")
	sum := sha256.Sum256(text)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), "kms", region, r.options.Now()); err != nil {
		return nil, errors.New("the request to AWS cannot be signed")
	}
	var answer struct {
		PublicKey []byte
		KeyUsage  string
	}
	if err := sendJSON(req, transport, awsService, &answer); err != nil {
		return nil, err
	}
	if answer.KeyUsage != "" && answer.KeyUsage != "SIGN_VERIFY" {
		return nil, &fetch.GoneError{Err: errors.New("the key is not for signatures")}
	}
	key, err := x509.ParsePKIXPublicKey(answer.PublicKey)
	if err != nil {
		return nil, err
	}
	public, err := usable(key)
	if err != nil {
		return nil, err
	}
	return []crypto.PublicKey{public}, nil
}

// awsDomain returns the domain of the services in a region.
func awsDomain(region string) string {
	for _, p := range [][2]string{{"cn-", "amazonaws.com.cn"}, {"us-iso-", "c2s.ic.gov"}, {"us-isob-", "sc2s.sgov.gov"}, {"us-isof-", "csp.hci.ic.gov"}, {"eu-isoe-", "cloud.adc-e.uk"}, {"eusc-", "amazonaws.eu"}} {
		if strings.HasPrefix(region, p[0]) {
			return p[1]
		}
	}
	return "amazonaws.com"
}
