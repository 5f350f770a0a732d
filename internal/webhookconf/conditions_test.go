package webhookconf

import (
	"testing"

	"ephor.invalid/ephor/internal/settings"
)

func TestCheckConditions(t *testing.T) {
	usable, mistakes := CheckConditions([]settings.MatchCondition{
		{Name: "good", Expression: `!("system:nodes" in request.userInfo.groups) && object.metadata.name != "a"`},
		{Name: "syntax", Expression: `request.`}, {Name: "type", Expression: `1`}, {Name: "unknown", Expression: `nobody == ""`},
	}, nil)
	if len(usable) != 1 || usable[0].Name != "good" || len(mistakes) != 3 {
		t.Errorf("%v %v", usable, mistakes)
	}
	if usable, mistakes := CheckConditions(nil, nil); usable != nil || mistakes != nil {
		t.Error(usable, mistakes)
	}
}
