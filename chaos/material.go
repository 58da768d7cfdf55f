package chaos

import "fmt"

// Mint asks for something that is made for one run, on the operator's machine, and is secret in part. It is its own
// name: equal ones are made once.
type Mint struct {
	What  string   `json:"what"`            // a Mint's name, below
	Node  string   `json:"node,omitempty"`  // whose name a certificate has, whom a token is for
	From  Duration `json:"from,omitempty"`  // from now, when a certificate begins; negative: in the past
	Until Duration `json:"until,omitempty"` // from now, when it ends
	By    string   `json:"by,omitempty"`    // who signs: signing, the environment's own CA; stranger, one that nobody knows
}

// What can be made.
const (
	MintCert   = "certificate" // a node's certificate and its key
	MintCA     = "ca"          // a certificate of a CA that nobody knows; it has no key, since nothing is signed by it
	MintKey    = "signing-key" // a private key, ed25519, PKCS 8
	MintToken  = "token"       // a recovery token, which the platform issues
	MintBearer = "bearer"      // the operator's own token as a header line, for a tool on the platform's machine
	BySigning  = "signing"
	ByStranger = "stranger"
)

// Material is what was made.
type Material struct {
	Mint
	Text string `json:"-"` // PEM, or a token
	Key  string `json:"-"` // PEM of a certificate's key
}

// String says what is made.
func (m Mint) String() string {
	switch m.What {
	case MintCert:
		return fmt.Sprintf("a certificate of %s by %s, from %s until %s of now", m.Node, m.By, m.From, m.Until)
	case MintCA:
		return "the certificate of a CA that nobody knows"
	case MintKey:
		return "a signing key that nobody knows"
	case MintToken:
		return "a current recovery token of " + m.Node
	case MintBearer:
		return "the operator's token as a header"
	}
	return m.What
}

// placeholder stands for material that is not made yet, and for all of it where a plan is hashed.
func (m Mint) placeholder() Material {
	return Material{Mint: m, Text: "<" + m.String() + ">\n", Key: "<the key of " + m.String() + ">\n"}
}
