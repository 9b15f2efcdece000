import type * as deviceKeyModule from './device-key.js'
import type { Setting } from './options.js'
import { askJson, loadCode, type Call } from '../wire/request.js'

/** Loads the code of the device's key, which few pages use. @throws DidAuthClientError UNAVAILABLE */
export const loadDeviceKey = (): Promise<typeof deviceKeyModule> => loadCode(() => import('./device-key.js'))

/** Sends a login or refresh, with a proof of the device's key if client and service use one. */
export async function sendAsDevice(setting: Setting, user: deviceKeyModule.DeviceUser, call: Call): Promise<unknown> {
  return setting.deviceKey ? (await loadDeviceKey()).sendWithProof(setting, user, call) : askJson(setting, call)
}
