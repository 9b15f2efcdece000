import { Wallet } from 'ethers'
import { Device } from './demo-device.js'
import { createIssuer } from './demo-issuer.js'
import { startService } from './demo-service.js'
import { say, step } from './demo-step.js'

/** Sign up with a credential, login, refresh, a stolen token and logout, at an application of Express. */
export async function showLogin(): Promise<void> {
  const issuer = await createIssuer()
  const service = await startService(issuer.did)
  console.log(`A service asks for DIDs at ${service.url}`)
  const wallet = Wallet.createRandom()
  const phone = new Device(service.url, wallet)
  const laptop = new Device(service.url, wallet)
  const thief = new Device(service.url, Wallet.createRandom())
  console.log(`A wallet is ${phone.did}\n`)
  const credential = await issuer.emailCredential(phone.did, 'ada@example.org')
  const selfMade = await (await createIssuer()).emailCredential(thief.did, 'ada@example.org')

  await step(
    'The phone signs up and shows nothing: the service wants an e-mail credential',
    () => phone.signUp([]),
    401
  )
  await step('It signs up again, with a credential of an issuer that the service trusts', () =>
    phone.signUp([credential])
  )
  await step('The phone opens its profile; the e-mail came with the token', () => phone.send('GET', '/profile'))
  await step('The laptop logs in with the same wallet: a session of its own', () => laptop.logIn())
  await step('A thief shows that credential, which names another subject', () => thief.signUp([credential]), 401)
  await step('The thief makes a credential: its issuer is no one here', () => thief.signUp([selfMade]), 401)

  const stolen = phone.refreshToken
  await step('The phone refreshes: the old refresh token is used up', () => phone.refresh())
  service.pass(60)
  say('a minute passes')
  await step('The thief uses the old refresh token: that session is revoked', () => thief.refresh(stolen), 401)
  await step("The phone's new refresh token is dead as well: two held the same session", () => phone.refresh(), 401)
  await step('The laptop goes on, undisturbed', () => laptop.refresh())
  await step('The phone logs in again', () => phone.logIn())
  await step('The laptop logs out', () => laptop.logOut())
  await step('Its refresh token opens nothing any more', () => laptop.refresh(), 401)
  await step('The phone is still in', () => phone.send('GET', '/profile'))
  await service.stop()
}
