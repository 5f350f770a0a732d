package rule

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/scope"
)

// require is the validating half: images need digests and records of their verification. It sends no requests.
// object is what the mutating half made in the same evaluation; nil when there is nothing of that kind.
func (v *imageRule) require(s *scope.Scope, images []imageref.Image, object map[string]any) policy.Yield {
	if s.Request.Origin == policy.FromScan && v.verifies() {
		return policy.Yield{} // a scan verifies the images themselves, and records nothing
	}
	if object == nil {
		var err error
		if object, err = subject(s); err != nil {
			return failed("", err)
		}
	}
	var records verdicts // read when an entry asks for them
	read := false
	checked := false
	var skipped []string
	for _, e := range v.entries {
		if !e.verifyDigest && !e.required {
			continue
		}
		for i := range images {
			image := &images[i]
			if err := s.Env.Meter.Step(e.price()); err != nil {
				return failed("", err)
			}
			if !e.about(image) {
				continue
			}
			if e.skips(image) {
				skipped = append(skipped, image.String())
				continue
			}
			checked = true
			if e.verifyDigest && image.Digest == "" {
				return policy.Yield{Status: policy.StatusFail, Message: "missing digest for " + image.String()}
			}
			if !e.required {
				continue
			}
			if !read {
				read, records = true, recordsOf(object, recordKey(s.Program), s.Rule.Name)
			}
			if records[image.String()] != recordPass {
				return policy.Yield{Status: policy.StatusFail, Message: "unverified image " + image.String()}
			}
		}
	}
	suffix := ""
	if len(skipped) > 0 {
		suffix = ", skipped images: " + strings.Join(skipped, ", ")
	}
	switch {
	case checked:
		return policy.Yield{Status: policy.StatusPass, Message: "image verified" + suffix}
	case len(skipped) > 0:
		return policy.Yield{Status: policy.StatusSkip, Message: "image skipped" + suffix}
	}
	return policy.Yield{}
}

// verifies reports whether a signature is required.
func (v *imageRule) verifies() bool {
	for _, e := range v.entries {
		if e.verifies {
			return true
		}
	}
	return false
}
