package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// TokenPrefix is the prefix of every enrollment token that carries claims.
const TokenPrefix = "grt1."

// TokenClaims are the claims of an enrollment or recovery token. From them a node can tell without a request
// whether the token is current, and for this node and its environment. They are not signed: the platform, which
// knows the token by its digest, remains the authority.
type TokenClaims struct {
	NodeID    string    `json:"node_id"`
	Profile   string    `json:"environment_profile"`
	IssuedAt  time.Time `json:"issued_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Token returns claims and a random secret as one text: prefix, base64url of the claims, dot, secret.
func Token(c TokenClaims, secret string) (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write a token: %w", err)
	}
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(text) + "." + secret, nil
}

// ParseToken reads the claims of a token. ok is false for an opaque token, which has no claims.
func ParseToken(token string) (c TokenClaims, ok bool) {
	rest, found := strings.CutPrefix(token, TokenPrefix)
	claims, secret, dotted := strings.Cut(rest, ".")
	if !found || !dotted || secret == "" {
		return TokenClaims{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(claims)
	if err != nil || bounded.Unmarshal(text, &c, bounded.Small()) != nil {
		return TokenClaims{}, false
	}
	return c, true
}
