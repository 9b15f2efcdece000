// Reads the file .env in development. Variables that the environment has keep their values.
import { existsSync } from 'node:fs'

if (existsSync('.env')) process.loadEnvFile('.env')
else if (!process.env.PRIVATE_KEY) {
  console.error(`The file .env with the keys of this app is missing. Run this, and write two new keys into it:
  cp .env.example .env
  node -p "crypto.randomBytes(32).toString('hex')"`)
  process.exit(1)
}
