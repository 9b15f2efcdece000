// An OpenID Connect provider for the users of this service: `npm install express-did-auth oidc-provider`. The cookie
// session of this service logs users in, and the `sub` of its tokens is the user's DID. In production, the provider
// also needs its own adapter, keys and clients.
import { randomBytes } from 'node:crypto'
import express from 'express'
import { es256kSigner, setupDidAuth } from 'express-did-auth'
import { interactionPolicy, Provider } from 'oidc-provider'

const serviceUrl = 'http://localhost:3000'
const app = express()
const requireDid = setupDidAuth(app, {
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  serviceUrl,
  serviceSigner: es256kSigner(process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')),
  useCookies: true,
  maxRequestsPerTimeSlot: 1000
})

// Identify the user by the session of this service. The provider's own session may still be that of another user.
const { base, Check } = interactionPolicy
const policy = base()
policy
  .get('login')
  .checks.add(new Check('own_session', 'ask our session', ({ oidc }) => oidc.result?.login === undefined))

const provider = new Provider(`${serviceUrl}/oidc`, {
  clients: [
    { client_id: 'shop', token_endpoint_auth_method: 'none', redirect_uris: ['http://localhost:3001/callback'] }
  ],
  pkce: { required: () => true },
  findAccount: (_context, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  features: { devInteractions: { enabled: false } },
  interactions: { policy, url: (_context, { uid }) => `/interaction/${uid}` }
})

// The cookies are SameSite=Strict, so browsers send them only with requests of this service's own pages. A real page
// first checks the session and, if there is none, logs the user in with the client of express-did-auth.
app.get('/interaction/:uid', (_req, res) => {
  res.send('<form method="post"><button>Continue to the shop</button></form>')
})

// requireDid also checks the origin, so no other site can send this form for the user.
app.post('/interaction/:uid', requireDid, async (req, res) => {
  const { params } = await provider.interactionDetails(req, res)
  const accountId = req.auth.canonicalDid
  // The shop belongs to this service, so users need not give consent.
  const grant = new provider.Grant({ accountId, clientId: params.client_id })
  grant.addOIDCScope(params.scope)
  await provider.interactionFinished(req, res, { login: { accountId }, consent: { grantId: await grant.save() } })
})

app.use('/oidc', provider.callback())
app.listen(3000).on('listening', () => {
  console.log('http://localhost:3000')
})
