// NestJS on Express. Decorators are called as functions here, so that no compiler is needed. In TypeScript, write
// @Controller() and @Get() as usual. Install in addition to Express:
// npm install express-did-auth @nestjs/core@11 @nestjs/common@11 @nestjs/platform-express@11 reflect-metadata rxjs
import 'reflect-metadata'
import { randomBytes } from 'node:crypto'
import { Controller, Get, Module, Req } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { didOfPrivateKey, es256kSigner, setupDidAuth } from 'express-did-auth'

class ProfileController {
  profile(req) {
    return req.user
  }
}
const route = [ProfileController.prototype, 'profile']
Req()(...route, 0)
Get('profile')(...route, Object.getOwnPropertyDescriptor(...route))
Controller()(ProfileController)

class AppModule {}
Module({ controllers: [ProfileController] })(AppModule)

const privateKey = process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')
const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] })
// Set this up before listen(), which adds the routes of Nest.
const requireDid = setupDidAuth(app.getHttpAdapter().getInstance(), {
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  serviceUrl: 'http://localhost:3000',
  serviceDid: await didOfPrivateKey(privateKey),
  serviceSigner: es256kSigner(privateKey),
  maxRequestsPerTimeSlot: 1000
})
app.use('/profile', requireDid)
await app.listen(3000)
console.log('http://localhost:3000')
