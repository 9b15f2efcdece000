// An OpenID Connect provider whose users are those of this service: `npm install express-did-auth oidc-provider`. Its
// login is our cookie session, and the `sub` of its tokens the user's DID. A real provider also needs an adapter, keys
// and clients of its own.
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
  maxRequestsPerTimeSlot: 1000 // per user in ten minutes; a page soon reaches the default of 20
})

// Our session decides who the user is. The provider has its own session, which may be that of the previous user.
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

// A page of our own comes between: browsers send our cookies, which are SameSite=Strict, with requests of our pages
// alone. The session may be there already; else this page is where the user logs in first, with the client of
// express-did-auth.
app.get('/interaction/:uid', (_req, res) => {
  res.send('<form method="post"><button>Go on to the shop</button></form>')
})

// Guarded like every route that changes something: a foreign page cannot send this form for the user.
app.post('/interaction/:uid', requireDid, async (req, res) => {
  const { params } = await provider.interactionDetails(req, res)
  const accountId = req.auth.canonicalDid
  // The shop is ours, so that users are not asked what it may know.
  const grant = new provider.Grant({ accountId, clientId: params.client_id })
  grant.addOIDCScope(params.scope)
  await provider.interactionFinished(req, res, { login: { accountId }, consent: { grantId: await grant.save() } })
})

app.use('/oidc', provider.callback())
app.listen(3000).on('listening', () => {
  console.log('http://localhost:3000')
})
