package chaos

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// platformAPI calls the platform's API with curl on the platform's own machine, with the operator's token from a
// file in /run.
type platformAPI struct {
	c          *Case
	base, most string // most: seconds of one call
}

// checkAPI rejects an address that must not receive the operator's token, as far as the file alone shows.
func checkAPI(base string) []problem {
	switch {
	case base == "":
		return []problem{{Key: "api", Text: "is missing"}}
	case !ownAPI(base, samples()["edge_api_url"]):
		return []problem{{Key: "api", Text: fmt.Sprintf("%q: %s", base, wantAPI)}}
	}
	return nil
}

// platformAPI checks the address again, since the check of the file does not know the profile.
func (c *Case) platformAPI(base, most string) (platformAPI, *step.Refusal) {
	if !ownAPI(base, c.Profile.APIBase) {
		return platformAPI{}, step.Refuse(step.RefusedDrill, "api %q: %s", base, wantAPI)
	}
	return platformAPI{c, base, most}, c.needTools("curl")
}

func (a platformAPI) header() string { return a.c.runPath("header") }

// token returns the change that every call needs first.
func (a platformAPI) token() step.Change {
	return step.Change{File: &step.File{Path: a.header(), Text: a.c.minted(Mint{What: MintBearer}).Text, Mode: 0o600,
		Secret: true}}
}

func (a platformAPI) ask(path string, more ...string) step.Exec {
	argv := append([]string{a.c.tool("curl"), "-sS", "-f", "-m", a.most, "-H", "@" + a.header()}, more...)
	return step.Exec{Argv: append(argv, strings.TrimSuffix(a.base, "/")+path)}
}

// post returns a POST of a JSON body.
func (a platformAPI) post(path string, body object, more ...string) step.Exec {
	return a.ask(path, append(more, "-H", "Content-Type: application/json", "-d", body.String())...)
}

// object is a JSON object of texts, numbers and objects, which can always be encoded.
type object map[string]any

func (o object) String() string {
	text, _ := json.Marshal(o)
	return string(text)
}
