// Signing in at the issuer of a deployed stack with `auth: jwt`: authorization code with PKCE (RFC 7636). Elsewhere nobody
// signs in: the page has no word of an issuer.

interface Issuer {
  issuer: string;
  client_id: string;
  audience: string;
}

interface Token {
  text: string;
  until: number;
}

const TOKEN = "stepwell-token"; // of this tab alone
const ASKED = "stepwell-login"; // what was asked of the issuer, and where to go on
const EARLY_MS = 30000; // before a token ends

const said = document.querySelector<HTMLMetaElement>('meta[name="stepwell-login"]')?.content;
const issuer: Issuer | null = said ? (JSON.parse(said) as Issuer) : null;

export const needsLogin = issuer !== null;

/** The header that shows who calls. */
export function credentials(): Record<string, string> {
  const token = kept();
  return token ? { authorization: `Bearer ${token.text}` } : {};
}

/** Settles who calls before the first page is shown. Returns why nobody can sign in, if so. */
export async function settle(): Promise<string> {
  if (!issuer) return "";
  const answer = new URLSearchParams(location.search);
  try {
    if (answer.has("state")) await exchange(answer);
    if (kept()) return "";
    return sessionStorage.getItem("stepwell-out") ? "You are signed out." : await signIn();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

let leaving: Promise<string> | null = null; // this page, for the issuer: once, because a second request makes the first one's answer a stranger's
window.addEventListener("pageshow", (event) => event.persisted && leaving && location.reload());
// Who opens another page meanwhile comes back to that one.
window.addEventListener("hashchange", () => {
  const asked = sessionStorage.getItem(ASKED);
  if (leaving && asked) sessionStorage.setItem(ASKED, JSON.stringify({ ...(JSON.parse(asked) as object), hash: location.hash }));
});

/** Leaves for the issuer, which sends the browser back to where it is. Settles only if that fails. */
export function signIn(): Promise<string> {
  leaving ??= leave().catch((error: unknown) => {
    leaving = null;
    throw error;
  });
  return leaving;
}

async function leave(): Promise<string> {
  if (!issuer) return "";
  sessionStorage.removeItem(TOKEN);
  sessionStorage.removeItem("stepwell-out");
  const verifier = random();
  const state = random();
  sessionStorage.setItem(ASKED, JSON.stringify({ verifier, state, hash: location.hash }));
  const hashed = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const { authorization_endpoint: at } = await endpoints();
  const asked = new URL(at);
  Object.entries({
    response_type: "code",
    client_id: issuer.client_id,
    redirect_uri: here(),
    scope: "openid",
    audience: issuer.audience,
    state,
    code_challenge: encode(new Uint8Array(hashed)),
    code_challenge_method: "S256",
  }).forEach(([name, value]) => value && asked.searchParams.set(name, value));
  location.assign(asked);
  return new Promise(() => undefined); // nothing more is shown or asked for here
}

export function signOut(): void {
  sessionStorage.removeItem(TOKEN);
  sessionStorage.setItem("stepwell-out", "1");
  leaving = new Promise(() => undefined); // what this page still asks for is refused, and must not sign in again
  location.reload();
}

async function exchange(answer: URLSearchParams): Promise<void> {
  const asked = JSON.parse(sessionStorage.getItem(ASKED) ?? "{}") as { verifier?: string; state?: string; hash?: string };
  sessionStorage.removeItem(ASKED);
  history.replaceState(null, "", here() + (asked.hash ?? "")); // the code is good once; it does not stay in the address
  if (!asked.verifier || answer.get("state") !== asked.state) return; // not asked for by this tab: ask anew
  const refused = answer.get("error");
  if (refused) throw new Error(answer.get("error_description") ?? refused);
  const { token_endpoint: at } = await endpoints();
  const body = new URLSearchParams({ grant_type: "authorization_code", code: answer.get("code") ?? "", redirect_uri: here(), client_id: issuer?.client_id ?? "", code_verifier: asked.verifier });
  const reply = await fetch(at, { method: "POST", body, cache: "no-store" });
  const found = (await reply.json()) as { access_token?: string; expires_in?: number; error_description?: string; error?: string };
  if (!reply.ok || !found.access_token) throw new Error(found.error_description ?? found.error ?? `the issuer answered ${reply.status}`);
  sessionStorage.setItem(TOKEN, JSON.stringify({ text: found.access_token, until: Date.now() + (found.expires_in ?? 300) * 1000 - EARLY_MS }));
}

async function endpoints(): Promise<{ authorization_endpoint: string; token_endpoint: string }> {
  const reply = await fetch(`${issuer?.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`).catch(() => {
    throw new Error(`The issuer ${issuer?.issuer} does not answer.`);
  });
  if (!reply.ok) throw new Error(`The issuer ${issuer?.issuer} answered ${reply.status}.`);
  return (await reply.json()) as { authorization_endpoint: string; token_endpoint: string };
}

function kept(): Token | null {
  const text = sessionStorage.getItem(TOKEN);
  const token = text ? (JSON.parse(text) as Token) : null;
  return token && token.until > Date.now() ? token : null;
}

function here(): string {
  return location.origin + location.pathname;
}

function random(): string {
  return encode(crypto.getRandomValues(new Uint8Array(32)));
}

function encode(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
